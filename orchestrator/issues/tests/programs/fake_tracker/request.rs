//! What was typed.

/// `VERB --name=value --flag -- IDS`.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) ids: Vec<String>,
}

impl Request {
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Self {
        let mut args = args.into_iter();
        let verb = args.next().unwrap_or_default();
        let (mut options, mut ids) = (Vec::new(), Vec::new());
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--" => ids.extend(args.by_ref()),
                "-n" => options.push((arg, args.next().unwrap_or_default())),
                _ if arg.starts_with("--") => {
                    let (name, value) = arg.split_once('=').unwrap_or((&arg, "true"));
                    options.push((name.to_owned(), value.to_owned()));
                }
                _ => ids.push(arg),
            }
        }
        Self { verb, options, ids }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
