//! Qwen3-Reranker: a language model that answers "yes" or "no". Its configuration is that of any Qwen 3; its name says what it is.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::plan::Model;
use super::planned::{Content, Element, Piece, Planned};
use super::view::View;
use crate::limits;

/// Names of the models, in lowercase.
const NAMES: [&str; 2] = ["qwen3-reranker", "qwen3-vl-reranker"];

/// `enum llama_pooling_type`
const RANK: u32 = 4;

/// What llama.cpp calls the template, and the prompt that the model was trained with.
const TEMPLATE: (&str, &str) = (
    "rerank",
    concat!(
        "<|im_start|>system\n",
        "Judge whether the Document meets the requirements based on the Query and the Instruct provided. ",
        "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n",
        "<|im_start|>user\n",
        "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n",
        "<Query>: {query}\n",
        "<Document>: {document}<|im_end|>\n",
        "<|im_start|>assistant\n",
        "<think>\n\n</think>\n\n",
    ),
);

impl Model<'_> {
    /// Describes a reranker, if the model is one by its model card, its folder or its configuration: the rows of the two answers become the
    /// output.
    pub fn reranker(&mut self) -> Result<()> {
        if !self.is_reranker()? {
            return Ok(());
        }
        let tokenizer = self.json("tokenizer.json")?;
        let answer = |text: &str| {
            let number = tokenizer.as_deref().map(|document| super::tokenizer::number_of(document, text));
            number.transpose()?.flatten().map(u64::from).ok_or_else(|| {
                let message = format!(
                    "Qwen3-Reranker answers \"yes\" or \"no\", and 'tokenizer.json' has no token {text:?}"
                );
                Error::new(Code::NotFound, message)
            })
        };
        let rows = [answer("yes")?, answer("no")?];
        let is_tied = self.config.flag("tie_word_embeddings")?;
        let head = if is_tied { "token_embd.weight" } else { "output.weight" };
        let missing = || {
            Error::new(
                Code::NotFound,
                format!("Qwen3-Reranker needs {head:?}, which the checkpoint does not have"),
            )
        };
        let at = self.tensors.iter().position(|planned| planned.name == head).ok_or_else(missing)?;
        let planned = self.tensors.get(at).ok_or_else(missing)?;
        let (Content::Pieces(pieces), &[_, width]) = (&planned.content, planned.shape.as_slice()) else {
            return Err(missing());
        };
        let [Piece { source, factors: None, .. }] = pieces.as_slice() else {
            let message = "the answers of Qwen3-Reranker are rows of weights that have factors, which are not converted";
            return Err(Error::new(Code::UnsupportedEncoding, message).tensor(head));
        };
        let row = |row: u64| {
            let mut view = View::of(&planned.shape)?;
            view.slice(0, row, 1, 1)?;
            Ok(Piece { source: *source, view, add: 0.0, factors: None })
        };
        let pieces = rows.into_iter().map(row).collect::<Result<_>>()?;
        let output = Planned {
            name: "cls.output.weight".to_owned(),
            shape: vec![2, width],
            element: Element::AsSource,
            content: Content::Pieces(pieces),
        };
        if is_tied {
            self.tensors.insert(at, output);
        } else {
            self.tensors.splice(at..=at, [output]);
        }
        self.metadata.own("pooling_type", RANK);
        self.metadata.own("classifier.output_labels", vec!["yes".to_owned(), "no".to_owned()]);
        let (name, text) = TEMPLATE;
        self.metadata.set(&format!("tokenizer.chat_template.{name}"), text);
        self.metadata.set("tokenizer.chat_templates", vec![name.to_owned()]);
        Ok(())
    }

    fn is_reranker(&self) -> Result<bool> {
        let is_named = |text: &str| NAMES.iter().any(|name| text.to_lowercase().contains(name));
        let setting = self.config.value(&["_name_or_path"]).and_then(|node| node.if_text());
        if is_named(self.files.name()) || setting.is_some_and(is_named) {
            return Ok(true);
        }
        let Some(card) = self.files.read("README.md", limits::CHECKPOINT_TEXT_BYTES)? else {
            return Ok(false);
        };
        let card = String::from_utf8_lossy(&card).to_lowercase();
        Ok(NAMES.iter().any(|name| card.contains(&format!("# {name}"))))
    }
}
