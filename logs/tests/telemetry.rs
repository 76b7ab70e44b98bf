//! Traces and metrics as a collector receives them, and what a missing collector costs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod telemetry {
    #[cfg(feature = "otlp-grpc")]
    mod grpc;
    mod http;
    mod https;
    mod received;
    mod sending;
    mod traced;
}
