//! The language of Graphviz: a page of boxes and arrows becomes a text that `dot` always accepts.
//!
//! Names come from files of strangers. Labels are written as HTML-like labels with every special letter escaped, other
//! attributes as quoted strings; control characters and other unprintable letters never reach the text.

use std::fmt::Write as _;

/// Boxes on a page, at most. The callers stay below it; what is beyond is not drawn.
pub(crate) const MAX_NODES: usize = 25;
/// Letters of a label's line. A longer name is cut in its middle.
const MAX_LABEL_LETTERS: usize = 34;

/// What a box stands for. The name is its class in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeLook {
    /// A part, group or file of the project.
    Part,
    /// Where execution begins.
    Entry,
    /// A data store.
    Store,
    /// Another part, beside the one that the page shows.
    Outside,
    /// The folder that holds what is not connected otherwise.
    Folder,
}

/// How something changed between two trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangeLook {
    /// The page shows no changes, or nothing changed.
    #[default]
    Same,
    /// Only in the new tree.
    Added,
    /// Only in the old tree.
    Removed,
    /// In both, with differences.
    Changed,
}

/// A box.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DrawnNode {
    pub(crate) id: String,
    pub(crate) look: NodeLook,
    pub(crate) change: ChangeLook,
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) link: Option<String>,
    pub(crate) tooltip: String,
}

/// An arrow, or a plain line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DrawnEdge {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) heads: EdgeHeads,
    pub(crate) change: ChangeLook,
    /// 1 to 3.
    pub(crate) width: f64,
    pub(crate) link: Option<String>,
    pub(crate) tooltip: String,
}

/// Ends of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeHeads {
    /// One arrow.
    One,
    /// Both use each other.
    Both,
    /// A plain line.
    None,
}

/// A whole page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DrawnPage {
    pub(crate) title: String,
    pub(crate) legend: Vec<String>,
    pub(crate) nodes: Vec<DrawnNode>,
    pub(crate) edges: Vec<DrawnEdge>,
}

impl DrawnPage {
    /// The text for `dot`.
    pub(crate) fn to_dot(&self) -> String {
        let mut out = String::from("digraph explained {\n");
        let legend: Vec<String> =
            self.legend.iter().map(|line| format!("{}<BR ALIGN=\"LEFT\"/>", escape(line))).collect();
        let _ = writeln!(
            out,
            "  graph [rankdir=TB, bgcolor=\"transparent\", fontname=\"Helvetica\", fontsize=10, fontcolor=\"#5a6472\", labelloc=b, labeljust=l, nodesep=0.35, ranksep=0.5, pad=0.2, splines=true, tooltip={}, label=<<BR/>{}>];",
            quoted(&self.title),
            legend.concat()
        );
        out.push_str("  node [fontname=\"Helvetica\", fontsize=10, shape=box, style=\"rounded,filled\", penwidth=1.2, margin=\"0.16,0.09\", fontcolor=\"#1c2430\"];\n");
        out.push_str("  edge [color=\"#7a8699\", arrowsize=0.7, penwidth=1.2];\n");
        let nodes = &self.nodes[..self.nodes.len().min(MAX_NODES)];
        for node in nodes {
            out.push_str(&node_line(node));
        }
        for (look, rank) in [(NodeLook::Entry, "source"), (NodeLook::Store, "sink")] {
            let peers: Vec<&str> =
                nodes.iter().filter(|node| node.look == look).map(|node| node.id.as_str()).collect();
            if !peers.is_empty() {
                let _ = writeln!(out, "  {{ rank={rank}; {}; }}", peers.join("; "));
            }
        }
        let known = |id: &str| nodes.iter().any(|node| node.id == id);
        for edge in self.edges.iter().filter(|edge| known(&edge.from) && known(&edge.to)) {
            out.push_str(&edge_line(edge));
        }
        out.push_str("}\n");
        out
    }
}

fn node_line(node: &DrawnNode) -> String {
    let (shape, fill, stroke, style) = match node.look {
        NodeLook::Part => ("box", "#eaf1fb", "#3b5b8c", "rounded,filled"),
        NodeLook::Entry => ("box", "#fdf1d8", "#a9761b", "rounded,filled"),
        NodeLook::Store => ("cylinder", "#e5f3e8", "#3c7d4b", "filled"),
        NodeLook::Outside => ("box", "#f3f4f6", "#8a93a1", "rounded,filled,dashed"),
        NodeLook::Folder => ("folder", "#f3f4f6", "#8a93a1", "filled"),
    };
    let (fill, stroke) = match node.change {
        ChangeLook::Same => (fill, stroke),
        ChangeLook::Added => ("#dff5e3", "#1e8a3c"),
        ChangeLook::Removed => ("#fbe3e3", "#b3261e"),
        ChangeLook::Changed => ("#fdf1d8", "#a9761b"),
    };
    let mut label = format!("<B>{}</B>", escape(&shorten(&node.title)));
    for line in &node.lines {
        let _ = write!(label, "<BR/><FONT POINT-SIZE=\"9\">{}</FONT>", escape(&shorten(line)));
    }
    let link = node.link.as_ref().map(|link| format!(", URL={}", quoted(link))).unwrap_or_default();
    format!(
        "  {} [label=<{label}>, shape={shape}, style=\"{style}\", fillcolor=\"{fill}\", color=\"{stroke}\", class=\"{}\", tooltip={}{link}];\n",
        node.id,
        class(node.look, node.change),
        quoted(&node.tooltip)
    )
}

fn class(look: NodeLook, change: ChangeLook) -> String {
    let look = match look {
        NodeLook::Part => "part",
        NodeLook::Entry => "entry",
        NodeLook::Store => "store",
        NodeLook::Outside => "outside",
        NodeLook::Folder => "folder",
    };
    match change_class(change) {
        "" => look.to_owned(),
        change => format!("{look} {change}"),
    }
}

fn change_class(change: ChangeLook) -> &'static str {
    match change {
        ChangeLook::Same => "",
        ChangeLook::Added => "added",
        ChangeLook::Removed => "removed",
        ChangeLook::Changed => "changed",
    }
}

fn edge_line(edge: &DrawnEdge) -> String {
    let heads = match edge.heads {
        EdgeHeads::One => "",
        EdgeHeads::Both => ", dir=both",
        EdgeHeads::None => ", dir=none, style=dotted",
    };
    let change = match edge.change {
        ChangeLook::Same => "",
        ChangeLook::Added => ", color=\"#1e8a3c\", class=\"added\"",
        ChangeLook::Removed => ", color=\"#b3261e\", style=dashed, class=\"removed\"",
        ChangeLook::Changed => ", color=\"#a9761b\", class=\"changed\"",
    };
    let link = edge.link.as_ref().map(|link| format!(", URL={}", quoted(link))).unwrap_or_default();
    format!(
        "  {} -> {} [penwidth={:.1}, tooltip={tooltip}, edgetooltip={tooltip}{heads}{change}{link}];\n",
        edge.from,
        edge.to,
        edge.width.clamp(0.8, 3.0),
        tooltip = quoted(&edge.tooltip)
    )
}

/// True for letters that no label can show, or that change how others are shown.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}')
}

/// Text of an HTML-like label.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter if is_hidden(letter) => out.push(' '),
            letter => out.push(letter),
        }
    }
    // `dot` rejects a label that is empty after markup.
    if out.trim().is_empty() { "?".to_owned() } else { out }
}

/// A quoted string. A backslash would begin an escape of Graphviz, and `&` an entity.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '&' => out.push_str("&amp;"),
            letter if is_hidden(letter) => out.push(' '),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Cuts a long name in its middle, where names differ least.
fn shorten(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= MAX_LABEL_LETTERS {
        return text.to_owned();
    }
    let half = (MAX_LABEL_LETTERS - 1) / 2;
    let start: String = letters[..half].iter().collect();
    let end: String = letters[letters.len() - half..].iter().collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_text() {
        let page = DrawnPage {
            title: "\"]; x [URL=\"javascript:1".to_owned(),
            legend: vec!["</TABLE>><script>".to_owned()],
            nodes: vec![DrawnNode {
                id: "n0".to_owned(),
                look: NodeLook::Part,
                change: ChangeLook::Same,
                title: "<b>\u{0}\u{202e}&amp;".to_owned(),
                lines: vec![String::new()],
                link: Some("a\"b\\c".to_owned()),
                tooltip: "x\ny".to_owned(),
            }],
            edges: Vec::new(),
        };
        insta::assert_snapshot!(page.to_dot());
    }

    #[test]
    fn long_names_are_cut_in_the_middle() {
        assert_eq!(shorten(&"ab".repeat(40)).chars().count(), MAX_LABEL_LETTERS - 1);
    }
}
