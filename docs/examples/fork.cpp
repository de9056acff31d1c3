// Continues one prompt in several ways. The prompt is computed once: fork MODEL PROMPT
//
// c++ -std=c++17 fork.cpp $(pkg-config --cflags --libs kvik) -o fork
#include <iostream>
#include <kvik/kvik.hpp>
#include <string>
#include <vector>

namespace {

// Generates 16 tokens and returns the text of all.
std::string continue_by(kvik::Model& model, kvik::Session& session, int seed) {
  const size_t n_before = session.tokens().size();
  session.generate(R"({"max_tokens": 16, "seed": )" + std::to_string(seed) + "}").answer();
  const kvik::Tokens tokens = session.tokens();
  return model.detokenize(
      kvik::Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(n_before), tokens.end()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: fork MODEL PROMPT\n";
    return 2;
  }
  try {
    kvik::Model model(argv[1], R"({"ctx": 2048})");
    kvik::Session prompt = model.session();
    prompt.append(model.tokenize(argv[2]));
    prompt.prefill();
    for (int seed = 1; seed <= 3; ++seed) {
      kvik::Session branch = prompt.fork();
      std::cout << seed << ": " << continue_by(model, branch, seed) << '\n';
    }
    std::cout << model.statistics() << '\n';
  } catch (const kvik::Error& error) {
    std::cerr << "fork: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
