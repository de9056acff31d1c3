import { Component, type ComponentChildren } from "preact";

interface Props {
  // Rendered instead of the children after they have failed to render.
  fallback: (error: Error) => ComponentChildren;
  // The children are rendered again when this value changes.
  of?: unknown;
  children: ComponentChildren;
}

// Confines a rendering error to one part of the page.
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
