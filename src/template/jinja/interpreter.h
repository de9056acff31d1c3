#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "template/jinja/ast.h"
#include "template/jinja/runtime.h"

namespace kvik::jinja {

// The variables of one scope. Lookup continues in `outer`.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<std::string, Value>> values;
  // whether the scope has macros, which refer to the scope: a cycle that has to be broken
  // explicitly
  bool has_macros = false;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

struct Macro {
  const Statement* definition;
  std::shared_ptr<Scope> scope;
};

// Renders one template once. Not thread-safe.
class Interpreter {
 public:
  Interpreter(std::vector<std::pair<std::string, Value>> variables, const Limits& limits,
              int64_t now_s);
  ~Interpreter();

  // Renders the template. Errors: kInvalidArgument with the line number, for errors that the
  // template raises and for wrong types; kExhausted if the limits are exceeded.
  Result<Text> render(const Body& body);

 private:
  enum class Flow { kOn, kBreak, kContinue };
  class InnerScope;

  // Defined in statements.cpp.
  void keep_scope();
  Result<Flow> run(const Body& body);
  // Executes a statement after which execution continues with the next one.
  Result<void> act(const Statement& statement);
  Result<Flow> run(const Statement& statement);
  Result<Flow> run_if(const Statement& statement);
  Result<Flow> run_for(const Statement& statement);
  Result<Flow> run_items(const Statement& statement, std::vector<Value> items, uint32_t depth);
  Result<Flow> run_with(const Statement& statement);
  Result<void> run_call_block(const Statement& statement);
  Result<void> assign(const std::vector<std::string>& targets, const Value& value);
  Result<void> assign_one(const std::string& target, const Value& value);
  Result<void> put(const Value& value);
  // Returns the output of write().
  template <class Write>
  Result<Value> written(const Write& write) {
    Text text;
    Text* const before = std::exchange(out_, &text);
    const Result<Flow> flow = write();
    out_ = before;
    TRY(flow);
    return Value(std::move(text));
  }
  // Returns the output of `body`, which is rendered in a separate scope and passed through
  // `filters`. `filters` may be null.
  Result<Value> captured(const Body& body, const Expr* filters);
  Result<void> bind(const Statement& definition, Arguments given);
  Result<Value> call_macro(const Macro& macro, const Arguments& arguments);

  // Defined in expressions.cpp.
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_kind(const Expr& expr);
  Result<Value> name(const Expr& expr);
  Result<Value> collection(const Expr& expr);
  Result<Value> dict(const Expr& expr);
  Result<Value> access(const Expr& expr);
  Result<Value> sliced(const Expr& expr);
  Result<Value> sign(const Expr& expr);
  Result<Value> compare(const Expr& expr);
  Result<Value> logical(const Expr& expr);
  Result<Value> conditional(const Expr& expr);
  Result<Value> call(const Expr& expr);
  Result<Value> call_value(const Value& callee, const Arguments& arguments);
  Result<Value> filtered(const Expr& expr);
  Result<Value> tested(const Expr& expr);
  Result<Arguments> arguments(const Expr& expr);

  Runtime runtime_;
  std::shared_ptr<Scope> scope_ = std::make_shared<Scope>();
  Text* out_ = nullptr;
  uint32_t depth_ = 0;
  const Value* captured_ = nullptr;       // input of a block's filters
  const Statement* recursive_ = nullptr;  // the {% for … recursive %} loop that loop() calls
  // Objects that may be part of a reference cycle. They are cleared at the end.
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<Value::NamespacePtr> namespaces_;
};

}  // namespace kvik::jinja
