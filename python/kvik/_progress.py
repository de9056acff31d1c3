"""Progress bars. tqdm draws them if it is installed."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Union

Report = Callable[[int, int], None]  # (done, all)
Progress = Union[None, bool, Report]  # True: a bar


@contextlib.contextmanager
def reported(progress: Progress, what: str, unit: str, **look: Any) -> Iterator[Optional[Report]]:
    """Gives the function that progress is reported to: the caller's own, that of a bar, or None for nothing."""
    if progress is not True:
        if not (progress is None or progress is False or callable(progress)):
            raise TypeError(f"progress is {progress!r}, expected True, False or a function of the work done and all of it")
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc=what, unit=unit, **look) as bar:
        def show(done: int, whole: int) -> None:
            bar.total = whole
            bar.update(done - bar.n)
        yield show
