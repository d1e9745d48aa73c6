election "billing" {
  ttl = "10s"
}
election "billing" {
  ttl = "20s"
}
