store          = "redis://app:${env("REDIS_PASSWORD")}@localhost:${env("MISSING", 7000)}/2"
ttl            = env("LEASE")
renew_interval = "3s"
retry_interval = "1500ms"
drain_timeout  = "2s"
call_timeout   = "1s"
drift          = 5
latency        = "50ms"

election "billing" {
  command           = ["./worker", "--queue", "unpaid bills"]
  once              = true
  wait              = "1m"
  min_interval      = "20h"
  failover_on_crash = true
  isolate           = "off"
  on_elected        = "echo elected"
  on_lost           = "echo lost"
  on_leader_change  = "echo changed"
  verbose           = true
}
