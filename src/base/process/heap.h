#pragma once

namespace kvik::heap {

// Makes the allocator map blocks of 1 MiB and more directly from the system, so that freeing
// returns them, and lets no arena keep more than 1 MiB of free memory at its end. By default the C
// library raises both limits to 32 and 64 MiB per arena, and release() does not lower them.
void keep_little();

// Returns unused pages of freed blocks to the system. Takes milliseconds, because it walks all free
// blocks.
void release();

}  // namespace kvik::heap
