store = "redis://${env("NO_SUCH_VARIABLE")}:6379"
ttl   = lookup("ttl")

election "billing" {
  latency = env(1)
}
