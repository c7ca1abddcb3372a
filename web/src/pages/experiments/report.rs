//! A report as markup: headings, paragraphs, lists, tables, and the plots that lie beside it.
//!
//! Text stays text: HTML in a report is shown as it was typed, and a link is its words. Of pictures only plots of the same folder
//! are shown, each linked to itself, where it can be enlarged. A heading of the highest level is the title of the page, which has
//! one.
//!
//! Source: CommonMark 0.31.2, and GitHub's tables, as the parser has them.

use coalloc_common::plain_text;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Alignment, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::folder::is_plot;

/// A report to be shown.
pub(super) struct Report {
    /// Its first heading of the highest level.
    pub(super) title: Option<String>,
    /// All but that.
    pub(super) body: Markup,
}

/// The title of a report that begins like this.
pub(super) fn title(begin: &str) -> Option<String> {
    let line = begin.lines().find(|line| line.starts_with("# "))?;
    Report::of(line, |_| String::new()).title
}

impl Report {
    /// Reads a report; `address_of` has the address of a plot by its name.
    pub(super) fn of(text: &str, address_of: impl Fn(&str) -> String) -> Self {
        let mut writer = ReportWriter::new(address_of);
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            writer.write(event);
        }
        Self { title: writer.title, body: PreEscaped(writer.out) }
    }
}

/// What is written of a report while it is read.
struct ReportWriter<F> {
    address_of: F,
    out: String,
    title: Option<String>,
    /// The title or the picture that is being read.
    plain: Option<PlainPart>,
    /// The text of the last heading, after which the tables below it are named.
    heading: String,
    is_heading: bool,
    tables: usize,
    /// Of the columns of the table that is being read.
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
    /// Where the cell that is being read begins.
    cell: usize,
}

/// A part of a report of which only the text counts.
struct PlainPart {
    text: String,
    /// The address of a picture; empty for the title.
    address: String,
    /// Elements in it that have not ended.
    depth: usize,
}

impl<F: Fn(&str) -> String> ReportWriter<F> {
    const fn new(address_of: F) -> Self {
        Self {
            address_of,
            out: String::new(),
            title: None,
            plain: None,
            heading: String::new(),
            is_heading: false,
            tables: 0,
            alignments: Vec::new(),
            column: 0,
            is_head: false,
            cell: 0,
        }
    }

    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => match &mut self.plain {
                Some(plain) => plain.depth += 1,
                None => self.open(tag),
            },
            Event::End(tag) => match &mut self.plain {
                Some(plain) if plain.depth > 0 => plain.depth -= 1,
                Some(_) => self.close_plain(),
                None => self.close(tag),
            },
            Event::Code(text) => self.text(&text, |text| html! { code { (text) } }),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text(&text, |text| html! { (text) });
            }
            Event::SoftBreak => self.text("\n", |text| html! { (text) }),
            Event::HardBreak => self.text("\n", |_| html! { br; }),
            Event::Rule => self.out.push_str("<hr>"),
            // Of extensions that are not switched on.
            _ => {}
        }
    }

    fn text(&mut self, text: &str, shown: impl FnOnce(&str) -> Markup) {
        let text = plain_text::lines(text);
        if let Some(plain) = &mut self.plain {
            plain.text.push_str(&text);
            return;
        }
        if self.is_heading {
            self.heading.push_str(&text);
        }
        self.out.push_str(&shown(&text).into_string());
    }

    fn open(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level: HeadingLevel::H1, .. } if self.title.is_none() => {
                let (text, address) = (String::new(), String::new());
                self.plain = Some(PlainPart { text, address, depth: 0 });
            }
            Tag::Heading { level, .. } => {
                self.is_heading = true;
                self.heading.clear();
                self.out.push_str(heading(level)[0]);
            }
            Tag::Paragraph | Tag::HtmlBlock => self.out.push_str("<p>"),
            Tag::BlockQuote(_) => self.out.push_str("<blockquote>"),
            Tag::CodeBlock(_) => self.out.push_str("<pre>"),
            Tag::List(None) => self.out.push_str("<ul>"),
            Tag::List(Some(first)) => self.out.push_str(&format!("<ol start=\"{first}\">")),
            Tag::Item => self.out.push_str("<li>"),
            Tag::Emphasis => self.out.push_str("<em>"),
            Tag::Strong => self.out.push_str("<strong>"),
            Tag::Table(alignments) => self.open_table(alignments),
            Tag::TableHead => {
                (self.is_head, self.column) = (true, 0);
                self.out.push_str("<thead><tr>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.out.push_str("<tr>");
            }
            Tag::TableCell => self.cell = self.out.len(),
            Tag::Image { dest_url, .. } => {
                let (text, address) = (String::new(), dest_url.into_string());
                self.plain = Some(PlainPart { text, address, depth: 0 });
            }
            // A link is its words, and the rest are extensions that are not switched on.
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                self.is_heading = false;
                self.out.push_str(heading(level)[1]);
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.out.push_str("</p>"),
            TagEnd::BlockQuote(_) => self.out.push_str("</blockquote>"),
            TagEnd::CodeBlock => self.out.push_str("</pre>"),
            TagEnd::List(false) => self.out.push_str("</ul>"),
            TagEnd::List(true) => self.out.push_str("</ol>"),
            TagEnd::Item => self.out.push_str("</li>"),
            TagEnd::Emphasis => self.out.push_str("</em>"),
            TagEnd::Strong => self.out.push_str("</strong>"),
            TagEnd::Table => self.out.push_str("</tbody></table></div>"),
            TagEnd::TableHead => {
                self.is_head = false;
                self.out.push_str("</tr></thead><tbody>");
            }
            TagEnd::TableRow => self.out.push_str("</tr>"),
            TagEnd::TableCell => self.close_cell(),
            _ => {}
        }
    }

    /// Ends the title or a picture.
    fn close_plain(&mut self) {
        let Some(PlainPart { text, address, .. }) = self.plain.take() else { return };
        if address.is_empty() && self.title.is_none() {
            self.title = Some(text);
            return;
        }
        let shown = if is_plot(&address) {
            let at = (self.address_of)(&address);
            let name = if text.trim().is_empty() { &address } else { &text };
            html! { a href=(at) { img src=(at) alt=(name) loading="lazy"; } }
        } else {
            html! { (text) }
        };
        self.out.push_str(&shown.into_string());
    }

    fn open_table(&mut self, alignments: Vec<Alignment>) {
        self.alignments = alignments;
        self.tables += 1;
        let name = match self.heading.trim() {
            "" => format!("Table {}", self.tables),
            heading => format!("Table {}: {heading}", self.tables),
        };
        let begin = html! { div class="scroll" role="region" aria-label=(name) tabindex="0" {} };
        // What is in it comes later.
        self.out.push_str(begin.into_string().trim_end_matches("</div>"));
        self.out.push_str("<table>");
    }

    fn close_cell(&mut self) {
        let content = PreEscaped(self.out.split_off(self.cell));
        let is_number = self.alignments.get(self.column) == Some(&Alignment::Right);
        let class = is_number.then_some("number");
        // A heading says something.
        let cell = if self.is_head && !content.0.is_empty() {
            html! { th scope="col" class=[class] { (content) } }
        } else {
            html! { td class=[class] { (content) } }
        };
        self.out.push_str(&cell.into_string());
        self.column += 1;
    }
}

/// A heading's begin and end: one level lower than the title's at least.
const fn heading(level: HeadingLevel) -> [&'static str; 2] {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => ["<h2>", "</h2>"],
        HeadingLevel::H3 => ["<h3>", "</h3>"],
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => ["<h4>", "</h4>"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Report::of(text, |plot| format!("/p/{plot}")).body.into_string()
    }

    #[test]
    fn a_report_is_headings_paragraphs_lists_and_plots() {
        let text = "# Of `x` & *y*\n\nBy\n`sim run`.\n\n## Numbers\n\n* **no**: a\n* b\n\n![A plot](a.svg)\n\n### Small\n";
        let report = Report::of(text, |plot| format!("/p/{plot}"));
        assert_eq!(report.title.as_deref(), Some("Of x & y"));
        let expected = "<p>By\n<code>sim run</code>.</p><h2>Numbers</h2><ul><li><strong>no</strong>: a</li><li>b</li></ul>\
                        <p><a href=\"/p/a.svg\"><img src=\"/p/a.svg\" alt=\"A plot\" loading=\"lazy\"></a></p><h3>Small</h3>";
        assert_eq!(report.body.into_string(), expected);
        assert_eq!(title(text).as_deref(), Some("Of x & y"));
        assert_eq!(title("no title\n"), None);
    }

    #[test]
    fn a_table_has_a_name_headings_and_numbers_at_the_right() {
        let text = "## Means\n\n| | n |\n|---|--:|\n| a \\| b &lt; c | 1 ± 2 |\n";
        let expected = "<h2>Means</h2><div class=\"scroll\" role=\"region\" aria-label=\"Table 1: Means\" tabindex=\"0\">\
                        <table><thead><tr><td></td><th scope=\"col\" class=\"number\">n</th></tr></thead><tbody>\
                        <tr><td>a | b &lt; c</td><td class=\"number\">1 ± 2</td></tr></tbody></table></div>";
        assert_eq!(shown(text), expected);
    }

    #[test]
    fn text_stays_text() {
        let evil = "<script>alert(1)</script>\n\nA <b onclick=x>b</b> [w](javascript:alert(1)) <https://elsewhere.example> \u{202e}\n\n\
                    ```html\n<script>\n```\n\n## <img src=x>\n\n| <script> |\n|---|\n| `<script>` |\n";
        let text = shown(evil);
        for forbidden in ["<script", "<b ", "<img", "<a ", "href", "\u{202e}"] {
            assert!(!text.contains(forbidden), "{forbidden}: {text}");
        }
        assert!(text.contains("<pre>&lt;script&gt;\n</pre>") && text.contains(" w "), "{text}");
        assert!(text.contains("aria-label=\"Table 1: &lt;img src=x&gt;\""), "{text}");
    }

    #[test]
    fn pictures_come_from_the_folder_only() {
        for elsewhere in [
            "../a.svg",
            "/a.svg",
            "//e.example/a.svg",
            "https://e.example/a.svg",
            "a.png",
            ".a.svg",
            "data:x",
        ] {
            let text = shown(&format!("![the *plot*]({elsewhere})\n"));
            assert_eq!(text, "<p>the plot</p>", "{elsewhere}");
        }
        let quoted = shown("![\"><script>](a%22.svg)\n");
        assert!(quoted.contains("alt=\"&quot;&gt;&lt;script&gt;\""), "{quoted}");
        assert!(!quoted.contains("<script"), "{quoted}");
    }

    #[test]
    fn every_report_of_the_documentation_is_shown_whole() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/experiments");
        let mut reports = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path().join("report.md");
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            reports += 1;
            assert!(text.len() <= coalloc_common::limits::WEB_REPORT_MAX_BYTES, "{path:?}");
            let report = Report::of(&text, str::to_owned);
            assert!(report.title.is_some(), "{path:?}");
            let body = report.body.into_string();
            let count = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
            assert_eq!(body.matches("<h2>").count(), count("## "), "{path:?}");
            assert_eq!(body.matches("<img ").count(), count("!["), "{path:?}");
            assert_eq!(body.matches("<table>").count(), count("|--"), "{path:?}");
            let rows = count("|") - 2 * count("|--");
            let body_rows = body.matches("<tr>").count() - count("|--");
            assert_eq!(body_rows, rows, "{path:?}");
            assert!(!body.contains("| "), "a table is not read: {path:?}");
        }
        assert!(reports > 10, "{reports}");
    }
}
