// Wraps localStorage. A browser may forbid it or have no room: then nothing is stored.
export const storage = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },

  // False where it could not be kept.
  set(name: string, value: string): boolean {
    try {
      localStorage.setItem(name, value);
      return true;
    } catch {
      return false;
    }
  },

  remove(name: string): void {
    try {
      localStorage.removeItem(name);
    } catch {
      // Nothing was kept either.
    }
  },
};
