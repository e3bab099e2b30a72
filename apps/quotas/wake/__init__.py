"""Who is told, and which queues follow, when quota changes."""
