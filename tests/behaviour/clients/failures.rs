//! What a run makes of clients whose provider does not answer them.

use mala_agents::Client;
use mala_tests::model::{Model, Refusal, Reply, Script, say};

use super::installed;
use super::profiles::Checkout;
use crate::cli::done;

/// What the provider says of an account, in words that no client has of its own.
const REFUSED: &str = "this account was revoked on Tuesday";

#[test]
fn a_refused_account_stops_its_profile_at_once_with_the_providers_own_words() {
    let Some(installed) = installed() else { return };
    let model = Model::start();
    for client in Client::ALL {
        let Some(checkout) = Checkout::of(client, installed) else { continue };
        let talk = model.talk(Script::default().then(Reply::Refuse(Refusal::Words(401, REFUSED))));
        done(&checkout.world, "issue add --id bd-2 Work");
        let run = checkout.run(installed, &talk, "");

        assert_eq!(run.code, 1, "{client}: {run:?}");
        let warned: Vec<&str> =
            run.all("warning").iter().filter_map(|event| event["text"].as_str()).collect();
        let stopped: Vec<&&str> =
            warned.iter().filter(|text| text.contains("is stopped for this run")).collect();
        assert_eq!(stopped.len(), 1, "{client}: once, and not for each issue: {run:?}");
        let reason = run.summary()["attempts"][0]["reason"].as_str().unwrap();
        let is_told =
            |text: &str| text.contains("revoked on Tuesday") || text.contains("authentication_failed (401)");
        assert!(is_told(stopped[0]) && is_told(reason), "{client}: {stopped:?} {reason} {run:?}");
        for issue in ["bd-1", "bd-2"] {
            let shown = done(&checkout.world, &format!("issue show {issue} --json")).json();
            assert_eq!(shown["issue"]["status"], "open", "{client}: it stays ready: {shown}");
        }
    }
}

#[test]
fn what_the_provider_does_not_accept_is_told_in_its_own_words() {
    let Some(installed) = installed() else { return };
    let model = Model::start();
    for client in Client::ALL {
        let Some(checkout) = Checkout::of(client, installed) else { continue };
        let refused = Reply::Refuse(Refusal::Words(400, "the moon is in the wrong phase"));
        let talk = model.talk([checkout.shell("true"), refused, say("done")]);
        let run = checkout.run(installed, &talk, "");
        let reason = run.only("handed_over")["reason"].as_str().unwrap();
        assert!(reason.contains("the moon is in the wrong phase"), "{client}: {reason}");
        assert!(!reason.contains("signal"), "{client}: {reason}");
    }
}
