//! What the `OTEL_*` variables ask for.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::Trouble;

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) service: String,
    pub(super) resource: Vec<(String, String)>,
    pub(super) traces: Option<Target>,
    pub(super) metrics: Option<Target>,
    /// Between two exports of metrics.
    pub(super) interval: Duration,
}

/// Where one signal is sent, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) protocol: Protocol,
    pub(super) endpoint: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    pub(super) compression: Compression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    #[cfg(feature = "otlp-grpc")]
    Grpc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
}

/// A signal's name in variables, and its place at a collector.
struct Signal {
    name: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal { name: "TRACES", path: "v1/traces" };
const METRICS: Signal = Signal { name: "METRICS", path: "v1/metrics" };

const UNKNOWN: &str = "mala does not know this";
#[cfg(not(feature = "otlp-grpc"))]
const NO_GRPC: &str = "this build of mala has no gRPC; use `http/protobuf`, for which collectors listen on port 4318, \
                       or install mala with `--features otlp-grpc`";

impl Plan {
    /// Nothing if nothing is to be sent.
    pub(super) fn read(service: &str, env: Env<'_>) -> Result<Option<Self>, Trouble> {
        // An empty variable is as good as none.
        let env = &|name: &str| env(name).filter(|value| !value.trim().is_empty());
        if env("OTEL_SDK_DISABLED").is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let (traces, metrics) = (Target::read(&TRACES, env)?, Target::read(&METRICS, env)?);
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let resource = pairs("OTEL_RESOURCE_ATTRIBUTES", env)?;
        let named = resource.iter().find(|(key, _)| key == "service.name").map(|(_, name)| name.clone());
        Ok(Some(Self {
            service: env("OTEL_SERVICE_NAME").or(named).unwrap_or_else(|| service.to_owned()),
            resource,
            traces,
            metrics,
            interval: millis("OTEL_METRIC_EXPORT_INTERVAL", env)?.unwrap_or(Duration::from_secs(60)),
        }))
    }
}

impl Target {
    fn read(signal: &Signal, env: Env<'_>) -> Result<Option<Self>, Trouble> {
        // The signal's own variable comes first, then the one for all.
        let variable = |what: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.name);
            if env(&own).is_some() { own } else { format!("OTEL_EXPORTER_OTLP_{what}") }
        };
        if !is_wanted(signal, env(&variable("ENDPOINT")).is_some(), env)? {
            return Ok(None);
        }
        let protocol = protocol(&variable("PROTOCOL"), env)?;
        let compression = choice(&variable("COMPRESSION"), env, |value| match value {
            "none" => Some(Compression::None),
            "gzip" => Some(Compression::Gzip),
            _ => None,
        })?;
        Ok(Some(Self {
            protocol,
            endpoint: endpoint(signal, protocol, env),
            headers: pairs(&variable("HEADERS"), env)?,
            timeout: millis(&variable("TIMEOUT"), env)?.unwrap_or(Duration::from_secs(10)),
            compression: compression.unwrap_or(Compression::None),
        }))
    }
}

/// An endpoint asks for sending, and so does the exporter by its name.
fn is_wanted(signal: &Signal, has_endpoint: bool, env: Env<'_>) -> Result<bool, Trouble> {
    let variable = format!("OTEL_{}_EXPORTER", signal.name);
    let wanted = choice(&variable, env, |value| match value {
        "otlp" => Some(true),
        "none" => Some(false),
        _ => None,
    })?;
    Ok(wanted.unwrap_or(has_endpoint))
}

/// Over HTTP a signal has its own path, unless its own variable says all of it.
fn endpoint(signal: &Signal, protocol: Protocol, env: Env<'_>) -> String {
    if let Some(own) = env(&format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.name)) {
        return own.trim().to_owned();
    }
    let common = env("OTEL_EXPORTER_OTLP_ENDPOINT");
    match protocol {
        #[cfg(feature = "otlp-grpc")]
        Protocol::Grpc => common.unwrap_or_else(|| "http://localhost:4317".to_owned()).trim().to_owned(),
        Protocol::Http => {
            let base = common.unwrap_or_else(|| "http://localhost:4318".to_owned());
            format!("{}/{}", base.trim().trim_end_matches('/'), signal.path)
        }
    }
}

fn protocol(variable: &str, env: Env<'_>) -> Result<Protocol, Trouble> {
    let Some(value) = env(variable) else { return Ok(Protocol::Http) };
    match value.trim().to_ascii_lowercase().as_str() {
        "http/protobuf" => Ok(Protocol::Http),
        #[cfg(feature = "otlp-grpc")]
        "grpc" => Ok(Protocol::Grpc),
        #[cfg(not(feature = "otlp-grpc"))]
        "grpc" => Err(wrong(variable, &value, NO_GRPC)),
        _ => Err(wrong(variable, &value, UNKNOWN)),
    }
}

fn choice<T>(variable: &str, env: Env<'_>, read: fn(&str) -> Option<T>) -> Result<Option<T>, Trouble> {
    let Some(value) = env(variable) else { return Ok(None) };
    let known = read(value.trim().to_ascii_lowercase().as_str());
    known.map(Some).ok_or_else(|| wrong(variable, &value, UNKNOWN))
}

fn millis(variable: &str, env: Env<'_>) -> Result<Option<Duration>, Trouble> {
    let Some(value) = env(variable) else { return Ok(None) };
    match value.trim().parse() {
        Ok(count) if count > 0 => Ok(Some(Duration::from_millis(count))),
        _ => Err(wrong(variable, &value, "it must be a number of milliseconds")),
    }
}

/// `a=b,c=d`, with odd characters percent-encoded. The values may be secrets, so they are not shown if they are wrong.
fn pairs(variable: &str, env: Env<'_>) -> Result<Vec<(String, String)>, Trouble> {
    let Some(text) = env(variable) else { return Ok(Vec::new()) };
    let decode =
        |text: &str| percent_decode_str(text.trim()).decode_utf8().ok().map(|text| text.into_owned());
    let read = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((decode(key).filter(|key| !key.is_empty())?, decode(value)?))
    };
    let items = text.split(',').filter(|pair| !pair.trim().is_empty());
    let pairs: Option<Vec<_>> = items.map(read).collect();
    pairs.ok_or_else(|| wrong(variable, "...", "write it like `key=value,other=value`"))
}

fn wrong(variable: &str, value: &str, reason: &str) -> Trouble {
    Trouble::Setting { variable: variable.to_owned(), value: value.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Plan>, Trouble> {
        let env = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        };
        Plan::read("mala", &env)
    }

    fn plan(variables: &[(&str, &str)]) -> Plan {
        read(variables).unwrap().expect("something is sent")
    }

    fn words(variables: &[(&str, &str)]) -> String {
        read(variables).unwrap_err().to_string()
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host:4318/");

    #[test]
    fn nothing_is_sent_unless_asked_for() {
        for variables in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ] {
            assert_eq!(read(variables), Ok(None), "{variables:?}");
        }
    }

    #[test]
    fn an_endpoint_switches_both_signals_on_each_with_its_path() {
        let plan = plan(&[ENDPOINT, ("OTEL_SDK_DISABLED", "false")]);
        let traces = plan.traces.unwrap();
        assert_eq!((traces.protocol, &*traces.endpoint), (Protocol::Http, "http://host:4318/v1/traces"));
        assert_eq!((traces.timeout, traces.compression), (Duration::from_secs(10), Compression::None));
        assert_eq!(plan.metrics.unwrap().endpoint, "http://host:4318/v1/metrics");
        assert_eq!((&*plan.service, plan.interval), ("mala", Duration::from_secs(60)));
    }

    #[test]
    fn a_signals_own_variable_comes_first_and_is_taken_as_it_is() {
        let plan = plan(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other/in"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=x%20y, c=d="),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1500"),
        ]);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let (traces, metrics) = (plan.traces.unwrap(), plan.metrics.unwrap());
        assert_eq!((&*traces.endpoint, traces.protocol), ("http://other/in", Protocol::Http));
        assert_eq!(traces.headers, [pair("api-key", "x y"), pair("c", "d=")]);
        assert_eq!(traces.timeout, Duration::from_millis(500));
        assert_eq!(metrics.endpoint, "http://host:4318/v1/metrics");
        assert_eq!((metrics.headers, metrics.compression), (vec![pair("a", "b")], Compression::Gzip));
        assert_eq!(plan.interval, Duration::from_millis(1_500));
    }

    #[test]
    fn an_exporter_by_name_uses_the_default_endpoint() {
        let http = plan(&[("OTEL_TRACES_EXPORTER", "otlp")]);
        assert_eq!(http.traces.unwrap().endpoint, "http://localhost:4318/v1/traces");
        assert_eq!(http.metrics, None);
    }

    #[test]
    #[cfg(feature = "otlp-grpc")]
    fn over_grpc_an_endpoint_has_no_path_and_another_port() {
        let given = plan(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")]);
        let (traces, metrics) = (given.traces.unwrap(), given.metrics.unwrap());
        assert_eq!((&*metrics.endpoint, metrics.protocol), ("http://host:4318/", Protocol::Grpc));
        assert_eq!((&*traces.endpoint, traces.protocol), ("http://host:4318/v1/traces", Protocol::Http));
        let grpc = plan(&[("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "gRPC ")]);
        assert_eq!(grpc.metrics.unwrap().endpoint, "http://localhost:4317");
    }

    #[test]
    #[cfg(not(feature = "otlp-grpc"))]
    fn a_build_without_grpc_says_so_and_what_to_do() {
        assert_eq!(
            words(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "gRPC")]),
            "`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` is `gRPC`: this build of mala has no gRPC; use `http/protobuf`, \
             for which collectors listen on port 4318, or install mala with `--features otlp-grpc`; \
             no traces or metrics are sent"
        );
    }

    #[test]
    fn the_service_is_named_by_its_own_variable_then_by_the_attributes() {
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b%2Cc");
        let named = plan(&[ENDPOINT, attributes]);
        assert_eq!(named.service, "a");
        assert_eq!(named.resource[1], ("team".to_owned(), "b,c".to_owned()));
        assert_eq!(plan(&[ENDPOINT, attributes, ("OTEL_SERVICE_NAME", "x")]).service, "x");
    }

    #[test]
    fn a_wrong_value_is_told_and_never_replaced_by_a_default() {
        assert_eq!(
            words(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]),
            "`OTEL_EXPORTER_OTLP_PROTOCOL` is `http/json`: mala does not know this; no traces or metrics are sent"
        );
        assert!(words(&[("OTEL_TRACES_EXPORTER", "console")]).contains("`console`"));
        assert!(words(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]).contains("milliseconds"));
        let headers = words(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]);
        assert!(headers.contains("`OTEL_EXPORTER_OTLP_HEADERS` is `...`"), "{headers}");
    }
}
