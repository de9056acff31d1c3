import { Component, type ComponentChildren } from "preact";

interface Props {
  // Shown instead of the children once they have failed to render.
  fallback: (error: Error) => ComponentChildren;
  // The children are tried again when this changes.
  of?: unknown;
  children: ComponentChildren;
}

// Keeps an error in one part of the page from taking the rest with it.
export class Boundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static override getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override componentDidUpdate(before: Props): void {
    if (this.state.error && before.of !== this.props.of) this.setState({ error: null });
  }

  override render() {
    const { error } = this.state;
    return error ? this.props.fallback(error) : this.props.children;
  }
}
