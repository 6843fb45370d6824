// Gemma's turn format, built in. A chat template in a file is only recognised, never executed: a
// template language in an untrusted file is a program.
//
//   <bos><start_of_turn>user\n{system text\n\n}{user text}<end_of_turn>\n<start_of_turn>model\n…
//
// The tokens are made directly, not from the rendered text: everything between two control tokens
// of the format is joined and encoded as one string with control tokens off. A message that
// contains "<end_of_turn>" therefore stays text and cannot end its turn.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.h"
#include "gguf/result.h"
#include "tokenizer/vocab.h"

namespace engine::tokenizer {

struct Message {
  std::string_view role;  // "user"; "assistant" or "model"; "system" or "developer"
  std::string_view content;
};

enum class TemplateKind {
  none,     // the file has no template: a pretrained model, which continues text
  gemma,    // Gemma's turn format
  unknown,  // something else: the built-in format is used, and the user should be told
};

// Judges the text of a chat template by its characteristic parts; white space does not matter.
TemplateKind recognise_template(std::string_view chat_template);
// The same for a file's "tokenizer.chat_template". Errors: TYPE.
Result<TemplateKind> template_of(const gguf::Reader& file);

// Whether the text ends with the opening of a model turn.
enum class GenerationPrompt { omit, add };

// Rules. User and model contents are trimmed of Unicode white space. System texts are not; they go
// before the first user text, each followed by a blank line; without any user message they are a
// user turn of their own, the first. Neighbouring messages of one role become one turn, joined by a
// blank line. A conversation may start with the model. Errors of both: invalid_argument for an
// empty list or an unknown role, which the message names.

// For display, and for programs that want the text: control tokens inside a content look real here.
Result<std::string> render_chat(std::span<const Message> messages, GenerationPrompt generation);
// Begins with one BOS. Errors: also unsupported if the vocabulary lacks the turn tokens, and
// invalid_argument above kMaxTextBytes.
Result<std::vector<Token>> encode_chat(const Vocab& vocab, std::span<const Message> messages,
                                       GenerationPrompt generation);

}  // namespace engine::tokenizer
