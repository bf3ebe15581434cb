//! The few things the document rules need to know about Markdown: what is prose and what is code,
//! headings and their anchors, links, table cells. One place, so that all rules agree on what is
//! code.

/// A line outside fenced code, with its number counted from 1.
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) text: &'a str,
}

/// All lines that are not inside a code fence.
pub(crate) fn prose(text: &str) -> Vec<Line<'_>> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced {
            found.push(Line { number: index + 1, text: line });
        }
    }
    found
}

/// The insides of the `code` spans of a line.
pub(crate) fn code_spans(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The line with its `code` spans removed.
pub(crate) fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The cells of a table row, trimmed.
pub(crate) fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// Targets of links, pictures and link definitions on a line.
pub(crate) fn link_targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut found = Vec::new();
    for rest in line.split("](").skip(1) {
        let target = rest.split(')').next().unwrap_or_default();
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    for attribute in ["src=\"", "href=\""] {
        for rest in line.split(attribute).skip(1) {
            found.extend(rest.split('"').next().map(str::to_owned));
        }
    }
    if let Some((_, target)) = line.trim_start().strip_prefix('[').and_then(|r| r.split_once("]: "))
    {
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    found
}

/// The anchors that a renderer makes of a document's headings.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in prose(text) {
        let Some(heading) = line.text.strip_prefix('#') else {
            continue;
        };
        let slug = slug(heading.trim_start_matches('#').trim());
        let repeated = found.iter().filter(|anchor| **anchor == slug).count();
        let anchor = if repeated == 0 { slug } else { format!("{slug}-{repeated}") };
        found.push(anchor);
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_of_headings_follow_the_renderer() {
        let text = "# A title: `x`, y\n```\n# not one\n```\n## Same\n## Same\n";
        assert_eq!(anchors(text), ["a-title-x-y", "same", "same-1"]);
    }

    #[test]
    fn link_targets_of_all_forms_are_found_outside_code() {
        let line = "[a](b.md#c) ![p](d.svg \"title\") `[no](e)` <img src=\"f.png\">";
        assert_eq!(link_targets(line), ["b.md#c", "d.svg", "f.png"]);
        assert_eq!(link_targets("[ref]: g.md"), ["g.md"]);
    }
}
