"""Sign-in by OpenID Connect: providers, what goes over the wire, a flow, whose identity it is."""
