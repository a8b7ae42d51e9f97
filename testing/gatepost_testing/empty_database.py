"""A database that is emptied between two tests: a small part of the time that a new one takes."""

from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.postgres_db import PostgresDb

# Rows that migrations wrote are put aside once and put back each time. References are not checked meanwhile, for the
# whole connection: a change of that has the server plan all anew. Names are written into the function, so that its
# statements are planned once, and not for every test.
_PREPARE = """
SET session_replication_role = replica;
CREATE SCHEMA seeded;
DO $$ DECLARE t text; n bigint; BEGIN
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('SELECT count(*) FROM %I', t) INTO n;
    IF n > 0 THEN EXECUTE format('CREATE TABLE seeded.%I AS TABLE public.%I', t, t); END IF;
  END LOOP;
END $$;
DO $$ DECLARE used text; emptied text; put_back text; restarted text; BEGIN
  SELECT string_agg(format('EXISTS (SELECT FROM public.%I)', tablename), ', ' ORDER BY tablename),
    string_agg(
      format('IF used[%s] THEN DELETE FROM public.%I; END IF;', number, tablename), ' ' ORDER BY tablename
    )
    INTO used, emptied
    FROM (
      SELECT tablename, row_number() OVER (ORDER BY tablename) AS number FROM pg_tables WHERE schemaname = 'public'
    ) AS numbered;
  SELECT string_agg(format('INSERT INTO public.%1$I SELECT * FROM seeded.%1$I;', tablename), ' ')
    INTO put_back FROM pg_tables WHERE schemaname = 'seeded';
  SELECT string_agg(format('PERFORM setval(%L, %s, false);', format('public.%I', sequencename), start_value), ' ')
    INTO restarted FROM pg_sequences WHERE schemaname = 'public';
  EXECUTE format(
    'CREATE FUNCTION seeded.reset() RETURNS void LANGUAGE plpgsql AS %L',
    'DECLARE used boolean[]; BEGIN used := ARRAY[' || used || ']; ' || emptied || put_back || restarted || ' END'
  );
END $$;
"""


class EmptyDatabase:
    def __init__(self, url: str) -> None:
        """`url`: of a database that was brought up to date and not used yet."""
        self.url = url
        self._connection = open_connection(url, "gatepost tests")
        self._db = PostgresDb(self._connection.pgconn)
        self._db.command(_PREPARE.encode())

    def reset(self) -> None:
        self._db.command(b"SELECT seeded.reset()")

    def close(self) -> None:
        self._connection.close()
