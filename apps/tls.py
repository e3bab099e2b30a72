"""TLS to servers whose authority an operator names: a cluster's, an exporter's, a company's own."""

import ssl


def trusting(authority: str | None = None, *, file: str | None = None) -> ssl.SSLContext:
    """A client's context that trusts these authorities (PEM), or the machine's where none is given.
    Raises OSError (`ssl.SSLError` where there is no certificate) and ValueError.
    """
    return without_forms(ssl.create_default_context(cafile=file, cadata=authority))


def without_forms(context: ssl.SSLContext) -> ssl.SSLContext:
    """The same context, which asks for no extension that only finds a chain faster.

    RULE: a certificate is checked as kubectl, curl and Python until 3.12 check it: chain, name, dates and
    purpose. Since 3.13 Python sets X509_STRICT, which also refuses an authority or a certificate without key
    identifiers or key usage; those of Amazon EKS and MicroK8s, and many a company's, have none.
    Source: docs.python.org, `ssl.create_default_context`; kubernetes-client/python issue 2394; OpenSSL's
    X509_VERIFY_PARAM_set_flags(3), X509_V_FLAG_X509_STRICT.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
