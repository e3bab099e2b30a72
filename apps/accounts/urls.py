"""Pages of signing in and of one's own tokens."""

from django.urls import path

from apps.accounts import inbox, views

urlpatterns = [
    path("sign-in/", views.SignInView.as_view(), name="sign-in"),
    path("sign-in/demo/", views.demo_sign_in, name="sign-in-demo"),
    path("invite/<str:text>/", views.InviteView.as_view(), name="invite"),
    path("sign-out/", views.sign_out_view, name="sign-out"),
    path("notices/", inbox.notices_page, name="notices"),
    path("me/tokens/", views.TokensView.as_view(), name="my-tokens"),
    path("me/tokens/<uuid:token_id>/revoke/", views.revoke, name="revoke-token"),
]
