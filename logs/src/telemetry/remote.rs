//! A trace that goes on in another process: `TRACEPARENT`, written as the W3C's trace context says.

use std::collections::HashMap;

use opentelemetry::ContextGuard;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The variable by which a process hears what its spans are a part of.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// The field as the specification names it.
const FIELD: &str = "traceparent";

/// What a process that works for this span is to be told; nothing if no trace is sent.
pub fn traceparent(span: &Span) -> Option<String> {
    let mut fields: HashMap<String, String> = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut fields);
    fields.remove(FIELD)
}

/// Spans that this thread begins from now on are parts of what was told.
pub(super) fn attach(told: String) -> ContextGuard {
    let fields = HashMap::from([(FIELD.to_owned(), told)]);
    TraceContextPropagator::new().extract(&fields).attach()
}
