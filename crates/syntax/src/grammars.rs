//! The grammars, one for each language that is parsed deeply.

use tree_sitter::Language;

use crate::language::SourceLanguage;

/// The grammar of a language, or `None` if its files are only scanned by lines.
pub(crate) fn grammar(language: SourceLanguage) -> Option<Language> {
    let function = match language {
        SourceLanguage::Python => tree_sitter_python::LANGUAGE,
        SourceLanguage::JavaScript => tree_sitter_javascript::LANGUAGE,
        SourceLanguage::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        SourceLanguage::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        SourceLanguage::Rust => tree_sitter_rust::LANGUAGE,
        SourceLanguage::Go => tree_sitter_go::LANGUAGE,
        SourceLanguage::Java => tree_sitter_java::LANGUAGE,
        SourceLanguage::C => tree_sitter_c::LANGUAGE,
        SourceLanguage::Cpp => tree_sitter_cpp::LANGUAGE,
        SourceLanguage::CSharp
        | SourceLanguage::Ruby
        | SourceLanguage::Php
        | SourceLanguage::Shell
        | SourceLanguage::Sql
        | SourceLanguage::Html
        | SourceLanguage::Css => return None,
    };
    Some(function.into())
}
