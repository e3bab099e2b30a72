"""What clusters hold, as last seen: written by watches and answers, read by everybody."""
