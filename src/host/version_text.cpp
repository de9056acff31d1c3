#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "backend/cpu/isa.h"
#include "host/build_info.h"

namespace kvik {

std::string version_text(std::string_view isa) {
  std::vector<std::string_view> names;
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) names.push_back(set.name);
  const cpu::InstructionSet* chosen = cpu::find_instruction_set(isa);
  const BuildInfo& info = build_info();
  return fmt::format(
      "kvik {}\ncommit            {}\ncompiler          {}\ninstruction sets  {}\nin use           "
      " {}",
      info.version, info.commit, info.compiler, fmt::join(names, ", "),
      chosen ? chosen->name : "none of them");
}

}  // namespace kvik
