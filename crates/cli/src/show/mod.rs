//! How records are shown, to people and to programs.

pub(crate) mod colour;
pub(crate) mod json;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod words;
