//! The manual pages of the C library, made of its header: one for each function, and `fampi(3)`.
//!
//! The header is the one text about the interface. What stands in its comments, and nothing else,
//! becomes pages here when the library is installed, so that they cannot say something older.
//!
//! **Assumes** the shape that cbindgen gives the header: a comment that begins with a line `/*` and
//! ends with a line ` */`, and right behind it what it is about.

use std::fmt::Write as _;

/// A page of section 3.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Something that the header declares, and what it says about it.
struct Item<'a> {
    comment: Vec<&'a str>,
    code: Vec<&'a str>,
}

impl Item<'_> {
    /// The name of the function that it declares, if it does.
    fn function(&self) -> Option<&str> {
        let code = self.code.first().filter(|line| !line.starts_with(['#', 't']))?;
        let before = code.split('(').next()?;
        before.rsplit([' ', '*']).next().filter(|name| name.starts_with("FAMPI_"))
    }

    /// The name and the value of the number that it defines, if it does.
    fn number(&self) -> Option<(&str, &str)> {
        self.code.first()?.strip_prefix("#define ")?.split_once(' ')
    }

    /// Its paragraphs.
    fn paragraphs(&self) -> Vec<String> {
        let parts = self.comment.split(|line| line.is_empty());
        parts.filter(|part| !part.is_empty()).map(|part| part.join(" ")).collect()
    }
}

/// All pages for a header.
pub(crate) fn pages(header: &str, version: &str) -> Vec<Page> {
    let items = items(header);
    let functions = items.iter().filter_map(|item| Some((item.function()?, item)));
    let mut pages = vec![Page { name: "fampi".to_owned(), text: overview(&items, version) }];
    pages.extend(functions.map(|(name, item)| {
        let text = page(name, item, version);
        Page { name: name.to_owned(), text }
    }));
    pages
}

fn items(header: &str) -> Vec<Item<'_>> {
    let mut lines = header.lines();
    let mut items = Vec::new();
    while lines.by_ref().any(|line| line == "/*") {
        let comment = lines.by_ref().take_while(|line| *line != " */");
        let comment = comment.map(|line| line.trim_start_matches(" *").trim()).collect();
        let mut code = Vec::new();
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            code.push(line);
        }
        items.push(Item { comment, code });
    }
    items
}

/// The head of a page, and what it is in a sentence.
fn head(name: &str, sentence: &str, version: &str) -> String {
    format!(
        ".\\\" Made of fampi.h by `cargo fampi install`.\n.TH {name} 3 \"\" \"fampi {version}\"\n\
         .SH NAME\n{name} \\- {sentence}\n"
    )
}

fn page(name: &str, item: &Item<'_>, version: &str) -> String {
    let mut paragraphs = item.paragraphs();
    let pointers = paragraphs.iter().position(|it| it == "Pointers:");
    let pointers = pointers.map_or(Vec::new(), |at| paragraphs.split_off(at));
    let is_result = |it: &String| {
        ["Returns ", "Waiting returns ", "This call returns "].iter().any(|it2| it.starts_with(it2))
    };
    let first = paragraphs.first().cloned().unwrap_or_default();
    let sentence = first.split_once(". ").map_or(&*first, |(sentence, _)| sentence);
    let mut text = head(name, &roff(sentence.trim_end_matches(['.', ':'])), version);
    text.push_str(".SH SYNOPSIS\n.nf\n.B #include <fampi.h>\n.sp\n");
    for line in &item.code {
        let _ = writeln!(text, "{}", roff(line));
    }
    text.push_str(".fi\n");
    let (results, description): (Vec<_>, Vec<_>) = paragraphs.into_iter().partition(is_result);
    section(&mut text, "DESCRIPTION", &description);
    section(&mut text, "RETURN VALUE", &results);
    section(&mut text, "POINTERS", pointers.get(1..).unwrap_or_default());
    text.push_str(".SH SEE ALSO\n.BR fampi (3)\n");
    text
}

fn section(text: &mut String, title: &str, paragraphs: &[String]) {
    if paragraphs.is_empty() {
        return;
    }
    let _ = writeln!(text, ".SH {title}");
    for (at, paragraph) in paragraphs.iter().enumerate() {
        let between = if at == 0 { "" } else { ".PP\n" };
        let _ = writeln!(text, "{between}{}", roff(paragraph));
    }
}

/// What holds for all functions, their names, and the numbers.
fn overview(items: &[Item<'_>], version: &str) -> String {
    let about = items.first().map(Item::paragraphs).unwrap_or_default();
    let title = about.first().cloned().unwrap_or_default();
    let title = title.trim_start_matches("fampi: ").trim_end_matches('.');
    let mut text = head("fampi", &roff(title), version);
    // How the header is made is nothing for its readers.
    section(&mut text, "DESCRIPTION", about.get(2..).unwrap_or_default());
    text.push_str(".SH FUNCTIONS\n");
    for item in items {
        if let Some(name) = item.function() {
            let first = item.paragraphs().first().cloned().unwrap_or_default();
            let sentence = first.split_once(". ").map_or(&*first, |(sentence, _)| sentence);
            let _ = writeln!(text, ".TP\n.BR {name} (3)\n{}", roff(sentence));
        }
    }
    text.push_str(".SH NUMBERS\n");
    for item in items {
        if let Some((name, value)) = item.number() {
            let said = item.paragraphs().join(" ");
            let _ = writeln!(text, ".TP\n.BR {name} \" {}\"\n{}", roff(value), roff(&said));
        }
    }
    text.push_str(".SH SEE ALSO\n.BR MPI_Wait (3),\n.BR MPI_Comm_spawn (3)\n");
    text
}

/// A line of text as roff wants it: its own signs are harmless, `words` in backquotes are bold.
fn roff(text: &str) -> String {
    let mut made = String::new();
    let mut bold = false;
    for character in text.chars() {
        match character {
            '\\' => made.push_str("\\e"),
            '-' => made.push_str("\\-"),
            '`' => {
                bold = !bold;
                made.push_str(if bold { "\\fB" } else { "\\fR" });
            }
            character => made.push(character),
        }
    }
    if made.starts_with(['.', '\'']) { format!("\\&{made}") } else { made }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/*\n * fampi: transactions that survive.\n *\n * Generated.\n *\n \
        * Blocks are decided.\n */\n\n#ifndef X\n\n/*\n Over.\n */\n#define FAMPI_OVER -1\n\n\
        /*\n A name for a type.\n */\ntypedef int FAMPI_Thing;\n\n/*\n Ends a `block`, or two. \
        Does not wait:\n it votes.\n\n .5 of all is not enough.\n\n Returns `FAMPI_OVER`.\n\n \
        Pointers:\n\n It is null.\n */\nint FAMPI_End(MPI_Request block,\n              \
        int count);\n\n/*\n Says why.\n */\nconst char *FAMPI_Why(int code);\n";

    #[test]
    fn each_function_has_a_page_with_all_that_the_header_says() {
        let pages = pages(HEADER, "1.2");
        let names: Vec<&str> = pages.iter().map(|page| &*page.name).collect();
        assert_eq!(names, ["fampi", "FAMPI_End", "FAMPI_Why"]);
        let end = ".TH FAMPI_End 3 \"\" \"fampi 1.2\"\n\
            .SH NAME\nFAMPI_End \\- Ends a \\fBblock\\fR, or two\n\
            .SH SYNOPSIS\n.nf\n.B #include <fampi.h>\n.sp\n\
            int FAMPI_End(MPI_Request block,\n              \
            int count);\n.fi\n.SH DESCRIPTION\n\
            Ends a \\fBblock\\fR, or two. Does not wait: it votes.\n.PP\n\
            \\&.5 of all is not enough.\n.SH RETURN VALUE\nReturns \\fBFAMPI_OVER\\fR.\n\
            .SH POINTERS\nIt is null.\n.SH SEE ALSO\n.BR fampi (3)\n";
        assert_eq!(pages[1].text.split_once('\n').map(|(_, rest)| rest), Some(end));
    }

    #[test]
    fn the_overview_names_functions_and_numbers() {
        let text = &pages(HEADER, "1.2")[0].text;
        for part in [
            "fampi \\- transactions that survive\n",
            ".SH DESCRIPTION\nBlocks are decided.\n",
            ".BR FAMPI_Why (3)\nSays why.\n",
            ".BR FAMPI_OVER \" \\-1\"\nOver.\n",
        ] {
            assert!(text.contains(part), "{part}\n---\n{text}");
        }
        assert!(!text.contains("Generated"));
    }
}
