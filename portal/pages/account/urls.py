"""The addresses of signing in, home, one's messages, tokens, keys and sessions, help and the live stream."""

from django.urls import path

from portal.pages.account import (
    help_views,
    home_views,
    notices_views,
    oidc_views,
    passkey_views,
    second_factor_views,
    session_views,
    sign_in_views,
    ssh_key_views,
    streams,
)

urlpatterns = [
    path("sign-in/", sign_in_views.SignInView.as_view(), name="sign-in"),
    path("sign-in/demo/", sign_in_views.demo_sign_in, name="sign-in-demo"),
    path("sign-in/second-step/", second_factor_views.SecondStepView.as_view(), name="second-step"),
    path("sign-in/second-step/set-up/", second_factor_views.SetUpView.as_view(), name="second-step-set-up"),
    path("sign-in/passkey/", passkey_views.PasskeySignInView.as_view(), name="sign-in-passkey"),
    path("invite/<str:text>/", sign_in_views.InviteView.as_view(), name="invite"),
    path("sign-in/with/<slug:provider>/", oidc_views.with_provider, name="sign-in-with"),
    path("sign-in/with/<slug:provider>/back/", oidc_views.back, name="sign-in-back"),
    path("me/sign-in/", session_views.sign_in_ways, name="my-sign-in"),
    path("me/sign-in/<slug:provider>/connect/", oidc_views.ConnectView.as_view(), name="connect"),
    path("me/sign-in/app/", second_factor_views.set_up_app, name="app"),
    path("me/sign-in/app/remove/", second_factor_views.RemoveAppView.as_view(), name="remove-app"),
    path(
        "me/sign-in/recovery-codes/", second_factor_views.RecoveryCodesView.as_view(), name="recovery-codes"
    ),
    path("me/sign-in/passkeys/", passkey_views.NewPasskeyView.as_view(), name="new-passkey"),
    path(
        "me/sign-in/passkeys/<uuid:passkey>/remove/",
        passkey_views.RemovePasskeyView.as_view(),
        name="remove-passkey",
    ),
    path("me/sign-in/ssh-keys/", ssh_key_views.NewSshKeyView.as_view(), name="new-ssh-key"),
    path(
        "me/sign-in/ssh-keys/<uuid:ssh_key>/remove/",
        ssh_key_views.RemoveSshKeyView.as_view(),
        name="remove-ssh-key",
    ),
    path("me/sessions/end/", session_views.end_others, name="end-other-sessions"),
    path("me/sessions/<uuid:session>/end/", session_views.end_session, name="end-session"),
    path("sign-out/", sign_in_views.sign_out_view, name="sign-out"),
    path("notices/", notices_views.notices_page, name="notices"),
    path("me/tokens/", sign_in_views.TokensView.as_view(), name="my-tokens"),
    path("me/tokens/<uuid:token_id>/revoke/", sign_in_views.revoke, name="revoke-token"),
    path("", home_views.home_page, name="home"),
    path("live/", streams.live, name="live"),
    path("help/figures/", help_views.how_page, name="how"),
]
