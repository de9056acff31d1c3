#pragma once

namespace kvik::cpu {

void add_entries_benches();
void add_shared_pages_benches();

}  // namespace kvik::cpu
