//! The hardware file of tests that run plans: two cores of this machine, with figures that are placeholders.

/// Two CPUs of one core each in one memory.
pub const HARDWARE: &str = r#"
name = "pair"
description = "Two cores of this machine."
sources = ["this test"]
[class.core]
kind = "cpu"
memory = "8 GB"
peak = { fp32 = "20 GFLOP/s" }
memory_bandwidth = "10 GB/s"
launch = "1 us"
[[node]]
name = "here"
memory = "16 GB"
[[device]]
name = "core"
class = "core"
node = "here"
count = 2
on_host = true
"#;
