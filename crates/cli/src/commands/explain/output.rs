//! Writes the explanation as files: Markdown, page, DOT, SVG and PNG.

use std::fs;
use std::path::{Path, PathBuf};

use sandyard_explain::Explanation;
use sandyard_explain::page::{CHANGES_SLUG, PageDiagram, explained_page, standalone_svg};
use sandyard_explain::text::rebase_links;

use crate::commands::explain::draw::DrawnPictures;
use crate::errors::CommandError;

/// Writes all files below `target` and returns the path of the page. Links lead to the files of `folder`.
pub(super) fn write(
    explanation: &Explanation,
    pictures: DrawnPictures,
    folder: &Path,
    target: &Path,
) -> Result<PathBuf, CommandError> {
    fs::create_dir_all(target.join("diagrams")).map_err(CommandError::file("create", target))?;
    let target = fs::canonicalize(target).map_err(CommandError::file("open", target))?;
    let prefix = relative(&target, folder);
    let rebase =
        |link: &str| Some(if link.contains("#L") { format!("{prefix}{link}") } else { link.to_owned() });
    let inner =
        |link: &str| rebase(link).map(|link| if link.contains("#L") { format!("../{link}") } else { link });
    put(&target, "EXPLAINED.md", rebase_links(&explanation.markdown, &prefix).as_bytes())?;
    put(&target, "diagram.dot", explanation.dot.as_bytes())?;
    for part in &explanation.parts {
        if let Some(dot) = &part.dot {
            put(&target, &format!("diagrams/{}.dot", part.slug), dot.as_bytes())?;
        }
    }
    let mut diagrams = Vec::new();
    if let Some((svg, png)) = pictures.overview {
        put(&target, "diagram.svg", standalone_svg(&svg, &rebase).unwrap_or_default().as_bytes())?;
        put(&target, "diagram.png", &png)?;
        diagrams.push(PageDiagram { slug: String::new(), name: String::new(), svg });
    }
    if let Some(changes) = &explanation.changes {
        put(&target, "changes.dot", changes.dot.as_bytes())?;
    }
    if let Some((svg, png)) = pictures.changes {
        put(&target, "changes.svg", standalone_svg(&svg, &rebase).unwrap_or_default().as_bytes())?;
        put(&target, "changes.png", &png)?;
        diagrams.push(PageDiagram { slug: CHANGES_SLUG.to_owned(), name: "Changes".to_owned(), svg });
    }
    for (slug, svg) in pictures.parts {
        put(
            &target,
            &format!("diagrams/{slug}.svg"),
            standalone_svg(&svg, &inner).unwrap_or_default().as_bytes(),
        )?;
        let name = explanation.parts.iter().find(|part| part.slug == slug).map(|part| part.name.clone());
        diagrams.push(PageDiagram { slug, name: name.unwrap_or_default(), svg });
    }
    let title = format!("{} explained", explanation.name);
    let page = explained_page(&title, &explanation.markdown, &diagrams, &rebase);
    put(&target, "explained.html", page.as_bytes())?;
    Ok(target.join("explained.html"))
}

fn put(target: &Path, name: &str, bytes: &[u8]) -> Result<(), CommandError> {
    let path = target.join(name);
    fs::write(&path, bytes).map_err(CommandError::file("write", &path))
}

/// The way from one folder to another, empty or with a slash at its end.
fn relative(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(left, right)| left == right).count();
    let ups = from.components().count() - shared;
    let mut way = "../".repeat(ups);
    for name in to.components().skip(shared) {
        for byte in name.as_os_str().as_encoded_bytes() {
            if byte.is_ascii_alphanumeric() || b"._-~".contains(byte) {
                way.push(char::from(*byte));
            } else {
                way.push_str(&format!("%{byte:02X}"));
            }
        }
        way.push('/');
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_up_and_down() {
        assert_eq!(relative(Path::new("/a/b/out"), Path::new("/a/c d")), "../../c%20d/");
        assert_eq!(relative(Path::new("/a/b/out"), Path::new("/a/b")), "../");
    }
}
