from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("tenants", "0006_member_invitations"),
    ]

    operations = [
        migrations.AddField(
            model_name="department",
            name="traces",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="generations with the traceparent of the requests that asked for them, the newest first",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="nodeassignment",
            name="traces",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="generations with the traceparent of the requests that asked for them, the newest first",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="traces",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="generations with the traceparent of the requests that asked for them, the newest first",
                max_length=300,
            ),
        ),
    ]
