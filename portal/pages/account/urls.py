"""The addresses of signing in, home, one's messages and tokens, help and the live stream."""

from django.urls import path

from portal.pages.account import help_views, home_views, notices_views, sign_in_views, streams

urlpatterns = [
    path("sign-in/", sign_in_views.SignInView.as_view(), name="sign-in"),
    path("sign-in/demo/", sign_in_views.demo_sign_in, name="sign-in-demo"),
    path("invite/<str:text>/", sign_in_views.InviteView.as_view(), name="invite"),
    path("sign-out/", sign_in_views.sign_out_view, name="sign-out"),
    path("notices/", notices_views.notices_page, name="notices"),
    path("me/tokens/", sign_in_views.TokensView.as_view(), name="my-tokens"),
    path("me/tokens/<uuid:token_id>/revoke/", sign_in_views.revoke, name="revoke-token"),
    path("", home_views.home_page, name="home"),
    path("live/", streams.live, name="live"),
    path("help/figures/", help_views.how_page, name="how"),
]
