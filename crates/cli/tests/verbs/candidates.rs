//! `tenure candidates`, where the store cannot tell; where it can: the tests with Redis.

use crate::stage::Stage;

#[tokio::test]
async fn a_store_that_cannot_tell_says_so() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    stage.run(&["candidates", "billing"]).refuse(1, &["the file store cannot tell who stands by", "hint: "]);
    let json = stage.run(&["candidates", "billing", "--json"]);
    json.expect(1);
    assert_eq!(json.json(), serde_json::json!({"election": "billing", "candidates": null}));
}
