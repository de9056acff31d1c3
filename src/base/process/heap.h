#pragma once

namespace kvik::heap {

// From now on large blocks (1 MiB and more) are the system's own, so that freeing gives them back,
// and no arena keeps more than 1 MiB of free memory at its end. By itself the library raises both
// limits with what it sees, up to 32 and 64 MiB an arena, and release() does not lower them.
void keep_little();

// Gives back to the system the pages of freed blocks that no block in use lies on. Takes the time
// of a walk through what is free (milliseconds).
void release();

}  // namespace kvik::heap
