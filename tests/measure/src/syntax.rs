//! What the text of one file defines.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItem, Item, Meta, Token, TraitItem, Visibility};

/// Lines are counted from 1.
#[derive(Debug, Default)]
pub(crate) struct Syntax {
    /// What is only built for tests.
    pub(crate) test_lines: Vec<RangeInclusive<usize>>,
    /// Modules in files of their own that are only built for tests.
    pub(crate) test_modules: Vec<String>,
    /// Lines with a comment that is no doc, alone or behind code; those of tests are among them.
    pub(crate) comment_lines: Vec<usize>,
    /// How many lines each function has, from its name to its end.
    pub(crate) functions: Vec<usize>,
    /// Structs, enums, unions, traits and aliases.
    pub(crate) types: Vec<String>,
    /// Items and methods that are `pub`.
    pub(crate) public: usize,
    /// Those of them that have docs.
    pub(crate) documented: usize,
}

pub(crate) fn of(text: &str) -> syn::Result<Syntax> {
    let file = syn::parse_file(text)?;
    let mut syntax = Syntax { comment_lines: comment_lines(text)?, ..Syntax::default() };
    if is_for_tests(&file.attrs) {
        syntax.test_lines.push(1..=text.lines().count());
    } else {
        syntax.visit_file(&file);
    }
    Ok(syntax)
}

impl Syntax {
    fn function(&mut self, name: Span, body: &Block) {
        self.functions.push(body.span().end().line + 1 - name.start().line);
    }

    fn visible(&mut self, visibility: &Visibility, attributes: &[Attribute]) {
        if matches!(visibility, Visibility::Public(_)) {
            self.public += 1;
            self.documented +=
                usize::from(attributes.iter().any(|attribute| attribute.path().is_ident("doc")));
        }
    }

    /// True if that was all about it: it is only built for tests.
    fn set_apart(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is_apart = is_for_tests(attributes);
        if is_apart {
            self.test_lines.push(item.span().start().line..=item.span().end().line);
        }
        is_apart
    }
}

impl<'ast> Visit<'ast> for Syntax {
    fn visit_item(&mut self, item: &'ast Item) {
        let (visibility, attributes, name) = match item {
            Item::Const(item) => (&item.vis, &item.attrs, None),
            Item::Enum(item) => (&item.vis, &item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.vis, &item.attrs, None),
            Item::Mod(item) => (&item.vis, &item.attrs, None),
            Item::Static(item) => (&item.vis, &item.attrs, None),
            Item::Struct(item) => (&item.vis, &item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.vis, &item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.vis, &item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.vis, &item.attrs, Some(&item.ident)),
            Item::ExternCrate(item) => (&Visibility::Inherited, &item.attrs, None),
            Item::ForeignMod(item) => (&Visibility::Inherited, &item.attrs, None),
            Item::Impl(item) => (&Visibility::Inherited, &item.attrs, None),
            Item::Macro(item) => (&Visibility::Inherited, &item.attrs, None),
            Item::Use(item) => (&Visibility::Inherited, &item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if self.set_apart(attributes, item) {
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                self.test_modules.push(module.ident.to_string());
            }
            return;
        }
        // The docs of a module in a file of its own stand in that file.
        if !matches!(item, Item::Mod(_)) {
            self.visible(visibility, attributes);
        }
        self.types.extend(name.map(ToString::to_string));
        if let Item::Fn(function) = item {
            self.function(function.sig.fn_token.span, &function.block);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        match item {
            ImplItem::Fn(method) => {
                if self.set_apart(&method.attrs, method) {
                    return;
                }
                self.visible(&method.vis, &method.attrs);
                self.function(method.sig.fn_token.span, &method.block);
            }
            ImplItem::Const(constant) => {
                if self.set_apart(&constant.attrs, constant) {
                    return;
                }
                self.visible(&constant.vis, &constant.attrs);
            }
            _ => {}
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if let TraitItem::Fn(method) = item
            && let Some(body) = &method.default
        {
            self.function(method.sig.fn_token.span, body);
        }
        visit::visit_trait_item(self, item);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|meta| needs_test(&meta))
    })
}

/// True of `test`, and of `all(...)` with it, but not of `any(test, ...)` or `not(test)`.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        _ => false,
    }
}

/// Comments are what stands behind the last token of a line. Docs and text in quotes are tokens.
fn comment_lines(text: &str) -> syn::Result<Vec<usize>> {
    let mut ends = BTreeMap::new();
    note_ends(text.parse::<TokenStream>()?, &mut ends);
    let is_comment = |(index, line): (usize, &str)| {
        let rest: String = line.chars().skip(ends.get(&(index + 1)).copied().unwrap_or(0)).collect();
        let rest = rest.trim_start();
        (rest.starts_with("//") || rest.starts_with("/*")).then_some(index + 1)
    };
    Ok(text.lines().enumerate().filter_map(is_comment).collect())
}

/// Notes the column where the last token of each line ends.
fn note_ends(tokens: TokenStream, ends: &mut BTreeMap<usize, usize>) {
    for token in tokens {
        let mut note = |span: Span| {
            for line in span.start().line..span.end().line {
                ends.insert(line, usize::MAX);
            }
            let end = ends.entry(span.end().line).or_default();
            *end = span.end().column.max(*end);
        };
        match token {
            TokenTree::Group(group) => {
                note(group.span_open());
                note(group.span_close());
                note_ends(group.stream(), ends);
            }
            token => note(token.span()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"//! About the file.

/// About it.
pub struct Known;
pub(crate) enum Hidden {} // why

#[cfg(all(test, unix))]
mod rig;

impl Known {
    pub fn short(&self) {}

    /// Documented.
    pub fn long(&self) -> &str {
        // A reason.
        "
        // no comment
        "
    }

    #[cfg(test)]
    fn only_tested() {}
}

trait Port {
    fn without_body();
    fn with_body() {
    }
}

#[cfg(not(test))]
type Alias = u8;

#[cfg(test)]
mod tests {
    // Not counted.
    struct Fixture;
    fn helper() {}
}
"##;

    #[test]
    fn a_file_is_taken_apart() {
        let syntax = of(TEXT).unwrap();
        assert_eq!(syntax.types, ["Known", "Hidden", "Port", "Alias"]);
        assert_eq!(syntax.functions, [1, 6, 2]);
        assert_eq!((syntax.public, syntax.documented), (3, 2));
        assert_eq!(syntax.test_modules, ["rig"]);
        assert_eq!(syntax.test_lines, [7..=8, 21..=22, 34..=39]);
        assert_eq!(syntax.comment_lines, [5, 15, 36]);
    }

    #[test]
    fn a_file_may_be_for_tests_as_a_whole() {
        let syntax = of("#![cfg(test)]\nstruct A;\n").unwrap();
        assert_eq!((syntax.test_lines, syntax.types.len()), (vec![1..=2], 0));
    }
}
