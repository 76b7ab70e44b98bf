//! Messages of clients and their providers that mean "not with this account".

/// What providers and clients write when they do not let somebody in. All in lower case.
const SIGNS: &[&str] = &[
    "authentication_error",
    "authentication_failed",
    "authentication failed",
    "invalid api key",
    "invalid x-api-key",
    "incorrect api key",
    "api key not valid",
    "api key expired",
    "api_key_invalid",
    "missing api key",
    "invalid authentication credentials",
    "oauth token has expired",
    "please run /login",
    "not logged in",
    "unexpected status 401",
    "error: 401",
    "status: 401",
    "\"code\":401",
    "\"code\": 401",
    "401 unauthorized",
    "credit balance is too low",
];

/// True if the message says that no further try can do better before a person has done something.
pub(super) fn is_denied(message: &str) -> bool {
    let lower = message.to_lowercase();
    SIGNS.iter().any(|sign| lower.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::is_denied;

    #[test]
    fn refused_accounts_are_recognised_and_other_failures_are_not() {
        for denied in [
            "Invalid API key \u{b7} Please run /login",
            "API Error: 401 {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\"}}",
            "unexpected status 401 Unauthorized: Missing bearer",
            "[API Error: API key not valid. Please pass a valid API key.]",
            "[API Error: {\"error\":{\"code\":401,\"status\":\"UNAUTHENTICATED\"}}]",
        ] {
            assert!(is_denied(denied), "{denied}");
        }
        for other in ["429 Too Many Requests", "tests/auth.rs failed at line 401", "overloaded_error", ""] {
            assert!(!is_denied(other), "{other}");
        }
    }
}
