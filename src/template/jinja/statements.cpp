#include <algorithm>

#include "template/jinja/interpreter.h"

namespace kvik::jinja {

using StatementKind = Statement::Kind;

namespace {

// Adds the line number to an error that has none.
std::unexpected<Error> at_line(Error error, uint32_t line) {
  constexpr std::string_view kPrefixWithoutLine = "chat template: ";
  if (error.message.starts_with(kPrefixWithoutLine)) {
    error.message = fmt::format("chat template, line {}: {}", line,
                                std::string_view(error.message).substr(kPrefixWithoutLine.size()));
  }
  return std::unexpected<Error>(std::move(error));
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->outer.get()) {
    for (const auto& [key, value] : scope->values) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : values) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  values.emplace_back(std::string(name), std::move(value));
}

// Enters a scope within the current one, or within the scope of a macro, during its lifetime.
class Interpreter::InnerScope {
 public:
  // `outer` is passed by value, because interpreter.scope_ changes here.
  InnerScope(Interpreter& interpreter, std::shared_ptr<Scope> outer)
      : interpreter_(interpreter), before_(interpreter.scope_) {
    interpreter_.scope_ = std::make_shared<Scope>();
    interpreter_.scope_->outer = std::move(outer);
  }
  ~InnerScope() { interpreter_.scope_ = before_; }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> before_;
};

Interpreter::Interpreter(std::vector<std::pair<std::string, Value>> variables, const Limits& limits,
                         int64_t now_s)
    : runtime_(limits, now_s) {
  scope_->values = std::move(variables);
}

Interpreter::~Interpreter() {
  for (const auto& made : namespaces_) made->values.entries.clear();
  for (const auto& scope : scopes_) scope->values.clear();
  scope_->values.clear();
}

void Interpreter::keep_scope() {
  if (scope_->has_macros) return;
  scopes_.push_back(scope_);
  scope_->has_macros = true;
}

Result<Text> Interpreter::render(const Body& body) {
  Text out;
  out_ = &out;
  // Variables that the template sets shadow the given ones without changing them.
  const InnerScope own(*this, scope_);
  TRY(run(body));
  return out;
}

Result<void> Interpreter::put(const Value& value) {
  if (!value.text()) {
    TRY_ASSIGN(Text text, text_of(runtime_, value));
    return put(Value(std::move(text)));
  }
  TRY(runtime_.charge_bytes(cost_of(*value.text())));
  out_->append(*value.text());
  return {};
}

Result<Interpreter::Flow> Interpreter::run(const Body& body) {
  for (const auto& statement : body) {
    const Result<Flow> flow = run(*statement);
    if (!flow) return at_line(flow.error(), statement->line);
    if (*flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::run(const Statement& statement) {
  TRY(runtime_.charge(1));
  switch (statement.kind) {
    case StatementKind::kIf:
      return run_if(statement);
    case StatementKind::kFor:
      return run_for(statement);
    case StatementKind::kWith:
      return run_with(statement);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    default:
      TRY(act(statement));
      return Flow::kOn;
  }
}

Result<void> Interpreter::act(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText:
      TRY(runtime_.charge_bytes(statement.text.size()));
      out_->append(statement.text, Origin::kTemplate);
      return {};
    case StatementKind::kOutput: {
      TRY_ASSIGN(const Value value, eval(*statement.expr));
      return put(value);
    }
    case StatementKind::kSet: {
      TRY_ASSIGN(const Value value, eval(*statement.expr));
      return assign(statement.targets, value);
    }
    case StatementKind::kSetBlock: {
      TRY_ASSIGN(const Value value, captured(statement.bodies[0], statement.expr.get()));
      return assign(statement.targets, value);
    }
    case StatementKind::kMacro:
      keep_scope();
      scope_->set(statement.name, std::make_shared<const Macro>(&statement, scope_));
      return {};
    case StatementKind::kCallBlock:
      return run_call_block(statement);
    default: {  // kFilter, and kGroup, which has no filters
      TRY_ASSIGN(const Value value, captured(statement.bodies[0], statement.expr.get()));
      return put(value);
    }
  }
}

Result<Interpreter::Flow> Interpreter::run_if(const Statement& statement) {
  for (size_t i = 0; i < statement.conditions.size(); ++i) {
    TRY_ASSIGN(const Value condition, eval(*statement.conditions[i]));
    if (condition.truthy()) return run(statement.bodies[i]);
  }
  const bool has_else = statement.bodies.size() > statement.conditions.size();
  return has_else ? run(statement.bodies.back()) : Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::run_for(const Statement& statement) {
  TRY_ASSIGN(const Value over, eval(*statement.expr));
  TRY_ASSIGN(std::vector<Value> items, iterate(runtime_, over));
  return run_items(statement, std::move(items), 1);
}

Result<Interpreter::Flow> Interpreter::run_items(const Statement& statement,
                                                 std::vector<Value> items, uint32_t depth) {
  if (statement.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      const InnerScope inner(*this, scope_);
      TRY(assign(statement.targets, item));
      TRY_ASSIGN(const Value keeps, eval(*statement.condition));
      if (keeps.truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    const InnerScope inner(*this, scope_);
    return statement.bodies.size() > 1 ? run(statement.bodies[1]) : Flow::kOn;
  }
  const auto loop = std::make_shared<Loop>();
  loop->items = std::make_shared<const List>(List{.items = std::move(items)});
  loop->depth = depth;
  const Statement* before = recursive_;
  if (statement.is_recursive) recursive_ = &statement;
  for (; loop->index < loop->items->items.size(); ++loop->index) {
    TRY(runtime_.charge(1));
    const InnerScope inner(*this, scope_);
    scope_->set("loop", Value(loop));
    TRY(assign(statement.targets, loop->items->items[loop->index]));
    TRY_ASSIGN(const Flow flow, run(statement.bodies[0]));
    if (flow == Flow::kBreak) break;
  }
  recursive_ = before;
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;
  for (const ExprPtr& expr : statement.conditions) {
    TRY_ASSIGN(Value value, eval(*expr));
    values.push_back(std::move(value));
  }
  const InnerScope inner(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) scope_->set(statement.targets[i], values[i]);
  return run(statement.bodies[0]);
}

Result<void> Interpreter::run_call_block(const Statement& statement) {
  TRY_ASSIGN(const Value callee, eval(*statement.expr->children[0]));
  TRY_ASSIGN(Arguments given, arguments(*statement.expr));
  keep_scope();
  if (given.find_named("caller")) return wrong("'caller' is given twice");
  given.named.emplace_back("caller", std::make_shared<const Macro>(&statement, scope_));
  TRY_ASSIGN(const Value value, call_value(callee, given));
  return put(value);
}

Result<void> Interpreter::assign(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) return assign_one(targets[0], value);
  TRY_ASSIGN(const std::vector<Value> parts, iterate(runtime_, value));
  if (parts.size() != targets.size()) {
    return wrong("{} values are assigned to {} names", parts.size(), targets.size());
  }
  for (size_t i = 0; i < parts.size(); ++i) TRY(assign_one(targets[i], parts[i]));
  return {};
}

Result<void> Interpreter::assign_one(const std::string& target, const Value& value) {
  const size_t dot = target.find('.');
  if (dot == target.npos) {
    scope_->set(target, value);
    return {};
  }
  const Value* owner = scope_->find(target.substr(0, dot));
  if (!owner || !owner->ns()) {
    return wrong("'{}' is not a namespace", target.substr(0, dot));
  }
  TRY(runtime_.charge(1 + owner->ns()->values.entries.size() / 16));
  set_entry(owner->ns()->values, make_text(target.substr(dot + 1)), value);
  return {};
}

Result<Value> Interpreter::captured(const Body& body, const Expr* filters) {
  TRY_ASSIGN(const Value value, written([&] {
               const InnerScope inner(*this, scope_);
               return run(body);
             }));
  if (!filters) return value;
  const Value* const before = std::exchange(captured_, &value);
  auto result = eval(*filters);
  captured_ = before;
  return result;
}

// Binds the arguments of a macro call in the current scope by Jinja's rules.
Result<void> Interpreter::bind(const Statement& definition, Arguments given) {
  const auto& parameters = definition.parameters;
  const size_t n_placed = std::min(given.positional.size(), parameters.size());
  bool names_caller = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    names_caller |= parameter.name == "caller";
    Value value(Undefined{parameter.name});
    if (i < n_placed) {
      value = given.positional[i];
    } else if (const auto argument = given.take_named(parameter.name)) {
      value = *argument;
    } else if (parameter.otherwise) {
      TRY_ASSIGN(value, eval(*parameter.otherwise));
    }
    scope_->set(parameter.name, std::move(value));
  }
  if ((definition.implicit_names & kCaller) && !names_caller) {
    const auto caller = given.take_named("caller");
    scope_->set("caller", caller ? *caller : Value(Undefined{"caller"}));
  }
  if (definition.implicit_names & kKwargs) {
    Dict rest;
    for (auto& [name, value] : given.named) rest.entries.emplace_back(make_text(name), value);
    scope_->set("kwargs", Value(std::move(rest)));
  } else if (!given.named.empty()) {
    return wrong("the macro '{}' takes no argument '{}'", definition.name,
                 given.named.front().first);
  }
  std::vector<Value> rest(given.positional.begin() + static_cast<std::ptrdiff_t>(n_placed),
                          given.positional.end());
  if (definition.implicit_names & kVarargs) {
    scope_->set("varargs", make_tuple(std::move(rest)));
  } else if (!rest.empty()) {
    return wrong("the macro '{}' takes at most {} arguments", definition.name, parameters.size());
  }
  return {};
}

Result<Value> Interpreter::call_macro(const Macro& macro, const Arguments& given) {
  const InnerScope inner(*this, macro.scope);
  TRY(bind(*macro.definition, given));
  return written([&] { return run(macro.definition->bodies[0]); });
}

}  // namespace kvik::jinja
