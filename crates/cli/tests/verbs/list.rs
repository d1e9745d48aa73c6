//! `tenure list`.

use crate::stage::Stage;

#[tokio::test]
async fn names_stand_one_a_line_in_order_and_by_their_beginning() {
    let stage = Stage::new();
    for name in ["team-b/x", "team-a/größe 1", "team-a/x"] {
        stage.lead(name, "a").await;
    }
    assert_eq!(stage.run(&["list"]).expect(0), "team-a/größe 1\nteam-a/x\nteam-b/x\n");
    assert_eq!(stage.run(&["list", "team-a/"]).expect(0), "team-a/größe 1\nteam-a/x\n");
    let json = stage.run(&["list", "--json", "team-b"]).json();
    assert_eq!(json, serde_json::json!({"elections": ["team-b/x"]}));

    let none = stage.run(&["list", "nothing"]);
    assert_eq!(none.expect(0), "");
    assert!(none.stderr.contains("no election begins with \"nothing\""), "{none:?}");
}
