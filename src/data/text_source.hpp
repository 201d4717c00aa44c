// Texts of clients as samples that predict the next token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client_source.hpp"
#include "vocabulary.hpp"

namespace hanse {

// Texts of one client, and its name in messages.
struct ClientTexts {
  std::string where;
  std::vector<std::string> train;
  std::vector<std::string> test;  // if the data have test texts
};

class TextReader {
 public:
  virtual ~TextReader() = default;
  virtual int64_t clients() const = 0;
  virtual std::string name(int64_t client) const = 0;
  // Do the data have test texts of their own?
  virtual bool has_test() const = 0;
  // Called twice for each client. Texts of a client are joined by the vocabulary's separator.
  virtual ClientTexts read(int64_t client) = 0;
  // The parts left out, as in ClientLayout.
  virtual std::vector<std::string> unread() const { return {}; }
};

// Sample: data.window tokens, filled up with padding on the left, and as label the next token; the
// second token of a text is predicted first, then every data.stride-th. With data.targets = every
// it is the data.window tokens from the first, then from every data.stride-th on, and as labels the
// tokens behind each of them; behind the text's end, padding with the label -1.
// The first data.max_samples of each client count, in training and in test. Without test texts the
// end of every client's text, data.test_fraction of it, becomes them, and the end of the rest,
// data.validation_fraction of it, validation samples. The parts are texts of their own: no window
// reaches from one into another. Clients with fewer than `min_samples` training samples are left
// out; with test samples alone they are held out, the last ones. Throws InvalidArgument when nobody
// is left. Cost: reads every text twice; one client in memory.
std::unique_ptr<ClientSource> make_token_source(std::unique_ptr<TextReader> reader,
                                                std::unique_ptr<Vocabulary> vocabulary,
                                                const DataOptions& data, int64_t min_samples = 1);

}  // namespace hanse
