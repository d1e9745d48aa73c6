store = "redis://localhost:6379"

election "billing" {
  ttl     = "10s"
  comamnd = ["./worker"]
}
