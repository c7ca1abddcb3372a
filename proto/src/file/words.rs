//! Turns what the parsing libraries say about a mistake into words for the person who wrote the file.
//!
//! The libraries speak of events and variants, and often leave out what is written in the file. A message
//! that is not known here is passed on unchanged.
//!
//! Left out: mistakes in values, see `net::convert`. Source: the error texts of serde_json and serde_saphyr.

use coalloc_common::limits;
use coalloc_common::suggest;

/// Longest piece of a file that is quoted in a message, in characters.
const SHOWN_MAX: usize = 80;

/// The fields of files that are whole numbers of 32 bits; all others have 64.
const NARROW: [&str; 11] = [
    "frames",
    "max_paths_per_link",
    "maxPathsPerLink",
    "max_links_per_path",
    "maxLinksPerPath",
    "plans",
    "quality",
    "max_paths_per_route",
    "maxPathsPerRoute",
    "discrepancies",
    "tries",
];

/// A mistake as a library reported it.
pub(super) struct Mistake<'a> {
    /// The library's message.
    pub(super) problem: &'a str,
    /// The field, as a path; may be empty.
    pub(super) field: &'a str,
    /// The whole text of the file.
    pub(super) text: &'a str,
    /// The line, from 1.
    pub(super) line: u64,
    /// The column, from 1.
    pub(super) column: u64,
}

impl Mistake<'_> {
    /// The line that is to blame, and a sentence about the mistake.
    pub(super) fn in_words(&self) -> (u64, String) {
        // Not just "tab", because a field's name may contain that.
        let tabs = ["a tab", "tab cannot", "tabs disallowed", "tabs are not"];
        let of_tab = tabs.iter().any(|said| self.problem.contains(said));
        let tab = of_tab.then(|| self.indented_with_tab()).flatten();
        if let Some(line) = tab {
            return (line, "is indented with a tab; allowed: spaces".to_owned());
        }
        let sentence = self.of_value().or_else(|| self.of_shape()).or_else(|| self.of_type());
        (self.line, sentence.unwrap_or_else(|| self.problem.to_owned()))
    }

    /// The sentence for a value that its field does not allow, or for a field that is there twice.
    fn of_value(&self) -> Option<String> {
        // The generated code reads numbers as "a number, or a text that is a number".
        let numbers = [
            "did not match any variant of untagged enum",
            "invalid digit found in string",
            "too large to fit in target type",
            "cannot parse integer from empty string",
            "invalid u64",
            "invalid u32",
        ];
        if numbers.iter().any(|number| self.problem.contains(number)) {
            let name = self.field.rsplit('.').next().unwrap_or(self.field);
            if name == "cpus" {
                let (value, most) = (self.value(), limits::CPUS_MAX);
                return Some(format!("`{value}` is not allowed; allowed: 1 to {most} CPUs"));
            }
            let is_narrow = NARROW.contains(&name) || self.problem.contains("u32");
            let max = if is_narrow { u64::from(u32::MAX) } else { u64::MAX };
            let value = self.value();
            return Some(format!(
                "`{value}` is not allowed; allowed: a whole number from 0 to {max}"
            ));
        }
        if let Some((start, allowed)) =
            self.problem.split_once(", expected a whole number of bit/s")
            && start.starts_with("invalid ")
        {
            let value = self.value();
            return Some(format!(
                "`{value}` is not allowed; allowed: a whole number of bit/s{allowed}"
            ));
        }
        if let Some(said) = problem_of_name(self.problem, &[]) {
            return Some(said);
        }
        let twice = ["duplicate mapping key: ", "duplicate field "];
        let (_, rest) = twice.iter().find_map(|said| self.problem.split_once(said))?;
        let field = rest.split(',').next().unwrap_or(rest).trim_matches('`');
        Some(format!("the field `{field}` appears twice; allowed: once"))
    }

    /// The sentence for a value of another type than that of its field.
    fn of_type(&self) -> Option<String> {
        let (_, allowed) = wrong_type(self.problem)?;
        Some(format!("`{}` is not allowed; allowed: {allowed}", self.value()))
    }

    /// The sentence for something of the wrong shape, such as a text where a list belongs.
    fn of_shape(&self) -> Option<String> {
        let written = self.written();
        if self.problem.contains("EOF while parsing") {
            return Some("the text ends while a bracket or quote is still open".to_owned());
        }
        if let Some(sign) = self.problem.strip_prefix("expected `") {
            return Some(format!("expected `{sign} in or before `{written}`"));
        }
        let of_values = [
            ("expected struct", "appears where fields and values are expected"),
            ("expected a sequence", "appears where a list is expected"),
            ("null into string", "appears where text is expected"),
            ("expected a string", "appears where text is expected"),
            ("invalid boolean", "is not allowed; allowed: true, false"),
            ("expected a boolean", "is not allowed; allowed: true, false"),
        ];
        let said = |(said, _): &&(&str, &str)| self.problem.contains(said);
        if let Some((_, sentence)) = of_values.iter().find(said) {
            // Where nothing is written, the line shows it.
            let value = Some(self.value()).filter(|value| !value.is_empty());
            return Some(format!("`{}` {sentence}", value.unwrap_or_else(|| self.written())));
        }
        // The first match counts, so particular messages come before general ones.
        let shapes = [
            ("expected mapping start", "appears where `field: value` is expected"),
            ("expected sequence start", "appears where a list is expected"),
            ("expected string scalar", "appears where text is expected"),
            (
                "simple key expected ':'",
                "is not `field: value`; is the colon missing, or the space after it?",
            ),
            (
                "mapping values are not allowed",
                "has a colon where none belongs; is it indented too deep, or a second field on one \
                 line?",
            ),
            (
                "did not find expected '-' indicator",
                "is indented differently from the lines that it belongs to",
            ),
            (
                "did not find expected key",
                "is indented differently from the lines that it belongs to",
            ),
            (
                "illegal placement of ':'",
                "has a colon where none belongs; is a `{` or `[` before it not closed?",
            ),
            ("only valid inside a block", "is inside a `{` or `[` that is not closed before it"),
            ("multiline quoted scalar", "is inside a quotation that is not closed before it"),
            (
                "multiple YAML documents",
                "begins or belongs to a second document; allowed: one document in a file",
            ),
            ("trailing comma", "follows a comma; allowed: no comma before it"),
        ];
        let (_, sentence) = shapes.iter().find(said)?;
        Some(format!("`{written}` {sentence}"))
    }

    /// The value of the field as it is written; if that is more than a word, the line that is to blame.
    fn value(&self) -> String {
        let value = super::find(self.text, self.field).and_then(|found| found.value);
        let value = value.filter(|value| {
            value.chars().count() <= SHOWN_MAX && !value.chars().any(char::is_control)
        });
        value.unwrap_or_else(|| self.written())
    }

    /// The line that is to blame. Of a long line, only the part around the mistake.
    fn written(&self) -> String {
        let index = usize::try_from(self.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let line = self.text.lines().nth(index).unwrap_or("");
        // Control characters become blanks: a file must not be able to steer the terminal.
        let line: Vec<char> =
            line.trim().chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
        let column = usize::try_from(self.column).unwrap_or(usize::MAX);
        let last = line.len().saturating_sub(SHOWN_MAX);
        let start = column.saturating_sub(SHOWN_MAX / 2).min(last);
        line.iter().skip(start).take(SHOWN_MAX).collect()
    }

    /// The first line from here on that is indented with a tab. The library blames the line before it.
    fn indented_with_tab(&self) -> Option<u64> {
        let numbered = (1..).zip(self.text.lines());
        let mut from_here = numbered.skip_while(|(number, _)| *number < self.line);
        let tab =
            |line: &str| line.chars().take_while(|one| one.is_whitespace()).any(|one| one == '\t');
        from_here.find(|(_, line)| tab(line)).map(|(number, _)| number)
    }
}

/// What serde says of a value, in words, where the file it was read from is not at hand. `others` are fields that are
/// allowed, too; `range` is what a number may be here. A problem that is not known here is passed on unchanged.
#[must_use]
pub fn problem_of_value(problem: &str, others: &[&str], range: Option<&str>) -> String {
    let of_type = || {
        let (found, allowed) = wrong_type(problem)?;
        let allowed = range.unwrap_or(&allowed);
        Some(format!("{found} is not allowed; allowed: {allowed}"))
    };
    problem_of_name(problem, others).or_else(of_type).unwrap_or_else(|| problem.to_owned())
}

/// Whether the problem is a field that does not exist.
#[must_use]
pub fn is_unknown_field(problem: &str) -> bool {
    problem.starts_with("unknown field `")
}

/// What serde says of a name (an unknown field, an unknown choice, a missing field), in words; `None` if the problem is
/// another one. `others` are fields that are allowed, too.
fn problem_of_name(problem: &str, others: &[&str]) -> Option<String> {
    if let Some(missing) = problem.strip_prefix("missing field `") {
        let name = missing.split('`').next().unwrap_or_default();
        return Some(format!("`{name}` is missing; expected `{name}: VALUE`"));
    }
    let named = |start: &str| problem.strip_prefix(start)?.split_once('`');
    if let Some((written, rest)) = named("unknown variant `") {
        let names = expected_names(rest)?;
        let allowed = suggest::choices(written, names);
        return Some(format!("`{written}` is not allowed; allowed: {allowed}"));
    }
    let (written, rest) = named("unknown field `")?;
    let is_camel = |name: &&str| name.chars().any(char::is_uppercase);
    let names = expected_names(rest)?.into_iter().filter(|name| !is_camel(name));
    let names: Vec<&str> = others.iter().copied().chain(names).collect();
    // A name may also be written without its underscores.
    let joined = written.replace('_', "").to_lowercase();
    let guess = match names.iter().find(|name| name.replace('_', "") == joined) {
        Some(name) => format!("; did you mean {name}?"),
        None => suggest::did_you_mean(written, names.iter().copied()),
    };
    Some(format!("there is no such field here; allowed: {}{guess}", names.join(", ")))
}

/// The names in the rest of a message: `` expected one of `a`, `b` ``, or `` expected `a` or `b` ``.
fn expected_names(rest: &str) -> Option<Vec<&str>> {
    let (_, known) = rest.split_once("expected ")?;
    let known = known.trim_start_matches("one of ");
    // serde puts each name between marks, and the YAML library takes them off.
    Some(
        known
            .split(", ")
            .flat_map(|name| name.split(" or "))
            .map(|name| name.trim_matches('`'))
            .collect(),
    )
}

/// What was found and what is allowed, where a value is not of the type of its field; `None` if the problem is another one.
fn wrong_type(problem: &str) -> Option<(String, String)> {
    let rest = problem
        .strip_prefix("invalid type: ")
        .or_else(|| problem.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found {
        "map" => "a mapping".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit" | "unit value" | "Option value" => "an empty value".to_owned(),
        // `string "many"`, `` integer `-1` ``, `` floating point `1.5` ``
        other => match other.split_once(['`', '"']) {
            // The marks of a text are the mistake where a number belongs.
            Some((_, text)) if other.starts_with("string") => {
                format!("\"{}\"", text.trim_end_matches('"'))
            }
            Some((_, value)) => value.trim_end_matches('`').to_owned(),
            None => other.to_owned(),
        },
    };
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    let allowed = match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => whole(u64::MAX),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" | "a borrowed string" => "a text".to_owned(),
        "a boolean" => "true, false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping, `field: VALUE`".to_owned(),
        "unit" => "nothing".to_owned(),
        structure if structure.starts_with("struct ") => "a mapping, `field: VALUE`".to_owned(),
        // The name of a type says nothing to those who wrote a file.
        choice if choice.starts_with("enum ") || choice == "string or map" => {
            "the name of a choice, or `name: {field: VALUE}`".to_owned()
        }
        other => other.to_owned(),
    };
    Some((found, allowed))
}

/// Whether a file has nothing but blank lines, comments and `---`.
pub(super) fn is_empty(text: &str) -> bool {
    let nothing = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    text.trim_start_matches('\u{feff}').lines().all(|line| nothing(line.trim()))
}
