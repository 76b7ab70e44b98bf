//! Changes to JSON text at exact places.
//!
//! Nothing is parsed and printed again: new text is put between bytes that stay, and taken out again. What was there before
//! can be told from how ours was put in:
//!
//! - into a list or object with something in it: behind its last element;
//! - into an empty one (`{}`): on lines of its own, with the closing bracket directly behind, `{` newline `... }`;
//! - into one that holds only blanks: on the same line as the opening bracket, the blanks behind it;
//! - a list or object that mala made itself: on lines of its own, and the closing bracket on a line of its own too; or,
//!   within the third case, on one line without any blanks inside the brackets.

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::entries::{MARKER, Origin, SERVERS, events, group, is_our_server, is_ours, server};
use super::{InstallError, Removal, path};
use crate::{Client, Event};

/// A file, and how its client reads it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) file: &'static str,
    /// With comments and trailing commas.
    pub(super) is_lenient: bool,
}

impl Place {
    /// Where `client` looks for hooks.
    fn of_hooks(client: Client) -> Self {
        Self { file: path(client), is_lenient: client == Client::Gemini }
    }
}

/// How the file is written.
struct Style {
    newline: &'static str,
    indent: String,
}

impl Style {
    fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let indent = text.lines().find_map(|line| {
            let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
            (blanks > 0 && blanks < line.trim_end().len()).then(|| line[..blanks].to_owned())
        });
        Self { newline, indent: indent.unwrap_or_else(|| "  ".to_owned()) }
    }

    fn line(&self, level: usize) -> String {
        format!("{}{}", self.newline, self.indent.repeat(level))
    }
}

/// Something that is put into a list or object.
enum Item {
    Hooks,
    Marker,
    Event(&'static str),
    Group(&'static str),
    Servers,
    Server,
}

struct Writer<'a> {
    client: Client,
    mala: &'a str,
    style: Style,
}

impl Writer<'_> {
    fn root(&self) -> Vec<Item> {
        let marker = (self.client == Client::Claude).then_some(Item::Marker);
        std::iter::once(Item::Hooks).chain(marker).collect()
    }

    fn events(&self) -> Vec<Item> {
        events(self.client).iter().map(|event| Item::Event(event)).collect()
    }

    /// The item on lines of its own, `level` deep.
    fn pretty(&self, item: &Item, level: usize) -> String {
        let body = |open: char, items: &[Item], close: char| {
            let lines: Vec<String> = items
                .iter()
                .map(|item| format!("{}{}", self.style.line(level + 1), self.pretty(item, level + 1)))
                .collect();
            format!("{open}{}{}{close}", lines.join(","), self.style.line(level))
        };
        match item {
            Item::Hooks => format!("\"hooks\": {}", body('{', &self.events(), '}')),
            Item::Event(event) => format!("\"{event}\": {}", body('[', &[Item::Group(event)], ']')),
            Item::Group(event) => group(self.client, event, self.mala, Origin::Project),
            Item::Marker => MARKER.to_owned(),
            Item::Servers => format!("\"{SERVERS}\": {}", body('{', &[Item::Server], '}')),
            Item::Server => server(self.mala),
        }
    }

    /// The item on one line.
    fn compact(&self, item: &Item) -> String {
        match item {
            Item::Hooks => format!("\"hooks\": {{{}}}", self.compact_all(&self.events())),
            Item::Event(event) => {
                format!("\"{event}\": [{}]", group(self.client, event, self.mala, Origin::Project))
            }
            Item::Servers => format!("\"{SERVERS}\": {{{}}}", server(self.mala)),
            Item::Group(_) | Item::Marker | Item::Server => self.pretty(item, 0),
        }
    }

    fn compact_all(&self, items: &[Item]) -> String {
        items.iter().map(|item| self.compact(item)).collect::<Vec<_>>().join(", ")
    }

    /// A whole file that holds just these.
    fn file(&self, items: &[Item]) -> String {
        let lines: Vec<String> = items.iter().map(|item| format!("\n  {}", self.pretty(item, 1))).collect();
        format!("{{{}\n}}\n", lines.join(","))
    }

    /// Where `items` go in `holder`, and as what text.
    fn append(&self, text: &str, holder: &Holder, items: &[Item], level: usize) -> (usize, String) {
        let pretty = |item| format!("{}{}", self.style.line(level), self.pretty(item, level));
        let lines: Vec<String> = items.iter().map(pretty).collect();
        match holder.children.last() {
            Some((_, end)) => (*end, lines.iter().map(|line| format!(",{line}")).collect()),
            None if holder.inside(text).is_empty() => (holder.open, lines.join(",")),
            None => (holder.open, self.compact_all(items)),
        }
    }
}

/// A list or object: where its inside begins and ends, and where its elements are.
struct Holder {
    open: usize,
    close: usize,
    children: Vec<(usize, usize)>,
}

impl Holder {
    fn object(object: &Object<'_>) -> Self {
        let children = object.properties.iter().map(|child| (child.start(), child.end())).collect();
        Self { open: object.start() + 1, close: object.end() - 1, children }
    }

    fn array(array: &Array<'_>) -> Self {
        let children = array.elements.iter().map(|child| (child.start(), child.end())).collect();
        Self { open: array.start() + 1, close: array.end() - 1, children }
    }

    fn inside<'t>(&self, text: &'t str) -> &'t str {
        &text[self.open..self.close]
    }

    /// The text in front of the elements and behind them, if there are any.
    fn margins<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let (first, last) = (self.children.first()?, self.children.last()?);
        Some((&text[self.open..first.0], &text[last.1..self.close]))
    }

    /// True if mala made it on lines of its own.
    fn is_block(&self, text: &str) -> bool {
        self.margins(text).is_some_and(|(before, behind)| before.contains('\n') && behind.contains('\n'))
    }

    /// True if mala made it on one line.
    fn is_tight(&self, text: &str) -> bool {
        self.margins(text) == Some(("", ""))
    }

    /// The bytes that go if the elements at `gone` go.
    fn cuts(&self, gone: &[usize]) -> Vec<(usize, usize)> {
        if gone.len() == self.children.len() {
            return self.children.last().map(|(_, end)| (self.open, *end)).into_iter().collect();
        }
        let first_kept = (0..self.children.len()).find(|at| !gone.contains(at)).unwrap_or(0);
        gone.iter()
            .map(|at| match at.checked_sub(1).filter(|before| *before >= first_kept) {
                Some(before) => (self.children[before].1, self.children[*at].1),
                None => (self.children[*at].0, self.children[at + 1].0),
            })
            .collect()
    }
}

/// The file as mala makes it where there is none.
pub(super) fn fresh(client: Client, mala: &str) -> String {
    let writer = Writer { client, mala, style: Style::of("") };
    writer.file(&writer.root())
}

/// The same for the file with mala's tools.
pub(super) fn fresh_server(client: Client, mala: &str) -> String {
    let writer = Writer { client, mala, style: Style::of("") };
    writer.file(&[Item::Servers])
}

/// `text` with hooks, which it does not have.
pub(super) fn insert(client: Client, text: &str, mala: &str) -> Result<String, InstallError> {
    let writer = Writer { client, mala, style: Style::of(text) };
    if text.trim().is_empty() {
        return Ok(format!("{text}{{{}}}", writer.compact_all(&writer.root())));
    }
    let place = Place::of_hooks(client);
    let value = parse(place, text)?;
    let root = as_object(place, &value, "the whole file")?;
    let mut items = Vec::new();
    let mut edits = Vec::new();
    match property(place, root, "hooks")? {
        None => items.push(Item::Hooks),
        Some(hooks) => {
            let hooks = as_object(place, &hooks.value, "hooks")?;
            let mut missing = Vec::new();
            for event in events(client) {
                let Some(list) = property(place, hooks, event)? else {
                    missing.push(Item::Event(event));
                    continue;
                };
                let list = as_array(place, &list.value, event)?;
                edits.push(writer.append(text, &Holder::array(list), &[Item::Group(event)], 3));
            }
            if !missing.is_empty() {
                edits.push(writer.append(text, &Holder::object(hooks), &missing, 2));
            }
        }
    }
    if client == Client::Claude {
        match property(place, root, "disableAllHooks")?.map(|found| &found.value) {
            None => items.push(Item::Marker),
            Some(Value::BooleanLit(off)) if !off.value => {}
            Some(_) => return Err(InstallError::SwitchedOff { file: path(client) }),
        }
    }
    if !items.is_empty() {
        edits.push(writer.append(text, &Holder::object(root), &items, 1));
    }
    // From the end, so that places in front stay valid. Of two at one place, the outer one comes behind.
    let mut result = text.to_owned();
    edits.sort_by_key(|(at, _)| *at);
    for (at, new) in edits.into_iter().rev() {
        result.insert_str(at, &new);
    }
    Ok(result)
}

/// `text` without hooks of ours.
pub(super) fn remove(client: Client, text: &str) -> Result<Removal, InstallError> {
    if text.trim().is_empty() {
        return Ok(Removal::Unchanged);
    }
    let place = Place::of_hooks(client);
    let value = parse(place, text)?;
    let root = as_object(place, &value, "the whole file")?;
    let mut cuts = Vec::new();
    let mut gone = Vec::new();
    for (at, child) in root.properties.iter().enumerate() {
        match child.name.as_str() {
            "hooks" if remove_hooks(client, text, child, &mut cuts) == Fate::Gone => gone.push(at),
            "disableAllHooks" if &text[child.start()..child.end()] == MARKER => gone.push(at),
            _ => {}
        }
    }
    if gone.is_empty() && cuts.is_empty() {
        return Ok(Removal::Unchanged);
    }
    rest(place, text, &Holder::object(root), (&gone, cuts))
}

/// `text` without the children of its root at `gone`, and without `cuts`.
fn rest(
    place: Place,
    text: &str,
    root: &Holder,
    (gone, mut cuts): (&[usize], Vec<(usize, usize)>),
) -> Result<Removal, InstallError> {
    if !gone.is_empty() && gone.len() == root.children.len() {
        if root.is_tight(text) {
            // The file was there, and it was blank.
            return Ok(Removal::Text([&text[..root.open - 1], &text[root.close + 1..]].concat()));
        }
        if root.is_block(text) {
            return Ok(Removal::Delete);
        }
    }
    cuts.extend(root.cuts(gone));
    let rest = without(text, cuts);
    parse(place, &rest)?; // else something was edited in between, and is left to a person
    Ok(Removal::Text(rest))
}

/// `text` with mala among the tool servers, unless there is one of that name already.
pub(super) fn insert_server(
    client: Client,
    place: Place,
    text: &str,
    mala: &str,
) -> Result<String, InstallError> {
    let writer = Writer { client, mala, style: Style::of(text) };
    if text.trim().is_empty() {
        return Ok(format!("{text}{{{}}}", writer.compact(&Item::Servers)));
    }
    let value = parse(place, text)?;
    let root = as_object(place, &value, "the whole file")?;
    let (at, new) = match property(place, root, SERVERS)? {
        None => writer.append(text, &Holder::object(root), &[Item::Servers], 1),
        Some(servers) => {
            let servers = as_object(place, &servers.value, SERVERS)?;
            if property(place, servers, "mala")?.is_some() {
                return Ok(text.to_owned());
            }
            writer.append(text, &Holder::object(servers), &[Item::Server], 2)
        }
    };
    Ok([&text[..at], &new, &text[at..]].concat())
}

/// `text` without the tool server that [`insert_server`] has put there.
pub(super) fn remove_server(place: Place, text: &str) -> Result<Removal, InstallError> {
    if text.trim().is_empty() {
        return Ok(Removal::Unchanged);
    }
    let value = parse(place, text)?;
    let root = as_object(place, &value, "the whole file")?;
    let all = root.properties.iter().position(|child| child.name.as_str() == SERVERS);
    let Some((all, servers)) = all.and_then(|at| Some((at, root.properties[at].value.as_object()?))) else {
        return Ok(Removal::Unchanged);
    };
    let is_ours = |child: &ObjectProp<'_>| is_our_server(&text[child.start()..child.end()]);
    let Some(own) = servers.properties.iter().position(is_ours) else { return Ok(Removal::Unchanged) };
    let (root, holder) = (Holder::object(root), Holder::object(servers));
    let is_made = holder.children.len() == 1 && (holder.is_block(text) || holder.is_tight(text));
    match is_made {
        true => rest(place, text, &root, (&[all], Vec::new())),
        false => rest(place, text, &root, (&[], holder.cuts(&[own]))),
    }
}

/// Program and arguments of the tool server called `mala`.
pub(super) fn server_command(place: Place, text: &str) -> Option<Vec<String>> {
    let value = parse(place, text).ok()?;
    let server = value.as_object()?.get_object(SERVERS)?.get_object("mala")?;
    let args = server.get_array("args").into_iter().flat_map(|args| &args.elements);
    let args = args.filter_map(|arg| Some(arg.as_string_lit()?.value.to_string()));
    Some(std::iter::once(server.get_string("command")?.value.to_string()).chain(args).collect())
}

/// True if the value at `keys`, from the outside in, is `expected`.
pub(super) fn is_flag(client: Client, text: &str, keys: &[&str], expected: bool) -> bool {
    let Ok(value) = parse(Place::of_hooks(client), text) else { return false };
    let mut at = &value;
    for key in keys {
        let Some(child) = at.as_object().and_then(|object| object.get(key)) else { return false };
        at = &child.value;
    }
    matches!(at, Value::BooleanLit(flag) if flag.value == expected)
}

/// The first command of ours among the hooks before a tool.
pub(super) fn command(client: Client, text: &str) -> Option<String> {
    let value = parse(Place::of_hooks(client), text).ok()?;
    let hooks = value.as_object()?.get_object("hooks")?;
    let groups = hooks.get_array(Event::BeforeTool.name(client))?;
    let handlers = groups.elements.iter().filter_map(|group| group.as_object()?.get_array("hooks"));
    let commands = handlers
        .flat_map(|list| &list.elements)
        .filter_map(|handler| Some(&handler.as_object()?.get_string("command")?.value));
    commands.map(ToString::to_string).find(|command| is_ours(client, command))
}

#[derive(PartialEq, Eq)]
enum Fate {
    Gone,
    Kept,
}

/// Cuts ours out of `hooks`, or says that all of it goes.
fn remove_hooks(client: Client, text: &str, hooks: &ObjectProp<'_>, cuts: &mut Vec<(usize, usize)>) -> Fate {
    let Value::Object(hooks) = &hooks.value else { return Fate::Kept };
    let mut gone = Vec::new();
    let mut inner = Vec::new();
    for (at, event) in hooks.properties.iter().enumerate() {
        let Value::Array(list) = &event.value else { continue };
        let (ours, partly) = groups_of_ours(client, list);
        let holder = Holder::array(list);
        let is_all = !ours.is_empty() && ours.len() == holder.children.len();
        if is_all && (holder.is_block(text) || holder.is_tight(text)) {
            gone.push(at);
            continue;
        }
        inner.extend(holder.cuts(&ours));
        inner.extend(partly);
    }
    let holder = Holder::object(hooks);
    let is_all = !gone.is_empty() && gone.len() == holder.children.len();
    if is_all && (holder.is_block(text) || holder.is_tight(text)) {
        return Fate::Gone;
    }
    cuts.extend(inner);
    cuts.extend(holder.cuts(&gone));
    Fate::Kept
}

/// Which groups are all ours, and what to cut out of those that are partly.
fn groups_of_ours(client: Client, list: &Array<'_>) -> (Vec<usize>, Vec<(usize, usize)>) {
    let (mut ours, mut cuts) = (Vec::new(), Vec::new());
    for (at, element) in list.elements.iter().enumerate() {
        let handlers = element.as_object().and_then(|group| group.get_array("hooks"));
        let Some(handlers) = handlers else { continue };
        let is_mine = |handler: &Value<'_>| {
            let command = handler.as_object().and_then(|handler| handler.get_string("command"));
            command.is_some_and(|command| is_ours(client, &command.value))
        };
        let mine: Vec<usize> =
            (0..handlers.elements.len()).filter(|at| is_mine(&handlers.elements[*at])).collect();
        match mine.len() {
            0 => {}
            count if count == handlers.elements.len() => ours.push(at),
            _ => cuts.extend(Holder::array(handlers).cuts(&mine)),
        }
    }
    (ours, cuts)
}

fn without(text: &str, mut cuts: Vec<(usize, usize)>) -> String {
    cuts.sort_unstable();
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in cuts {
        result.push_str(&text[at..start.max(at)]);
        at = at.max(end);
    }
    result.push_str(&text[at..]);
    result
}

/// JSON as it is, or with comments and trailing commas.
pub(crate) fn parse_options(is_lenient: bool) -> ParseOptions {
    ParseOptions {
        allow_comments: is_lenient,
        allow_trailing_commas: is_lenient,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parse(place: Place, text: &str) -> Result<Value<'_>, InstallError> {
    let file = place.file;
    let options = parse_options(place.is_lenient);
    let problem = |line, column, problem| InstallError::Syntax { file, line, column, problem };
    match parse_to_ast(text, &CollectOptions::default(), &options) {
        Ok(result) => result.value.ok_or_else(|| problem(1, 1, "there is no JSON in it".to_owned())),
        Err(error) => Err(problem(error.line_display(), error.column_display(), error.kind().to_string())),
    }
}

fn as_object<'v, 't>(place: Place, value: &'v Value<'t>, what: &str) -> Result<&'v Object<'t>, InstallError> {
    let error = || InstallError::Kind { file: place.file, what: what.to_owned(), expected: "an object" };
    value.as_object().ok_or_else(error)
}

fn as_array<'v, 't>(place: Place, value: &'v Value<'t>, what: &str) -> Result<&'v Array<'t>, InstallError> {
    let error = || InstallError::Kind { file: place.file, what: what.to_owned(), expected: "a list" };
    value.as_array().ok_or_else(error)
}

/// The property `name`, which may stand there once.
fn property<'v, 't>(
    place: Place,
    object: &'v Object<'t>,
    name: &str,
) -> Result<Option<&'v ObjectProp<'t>>, InstallError> {
    let mut found = object.properties.iter().filter(|child| child.name.as_str() == name);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(InstallError::Twice { file: place.file, what: name.to_owned() }),
        (first, None) => Ok(first),
    }
}
