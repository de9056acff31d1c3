// Wraps localStorage. If the browser forbids it or has no room, nothing is stored.
export const storage = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },

  // Returns false if the value could not be stored.
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
      // Nothing was stored either.
    }
  },
};
