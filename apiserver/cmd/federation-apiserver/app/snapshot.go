// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"liqo.io/federation/apiserver/options"
	"liqo.io/federation/apiserver/storage"
)

// standardInput is what a file is called that comes through a pipe.
const standardInput = "-"

const snapshotLong = `Writes everything that the embedded etcd of a running API server holds to the
standard output, with a checksum behind it. The server goes on. Who may execute
commands in the server's pod may take it away:

  kubectl exec federation-apiserver-0 --namespace liqo -- \
    federation-apiserver snapshot > federation.db`

const restoreLong = `Fills a data directory from a snapshot while no API server runs in it. Resource
versions go on far beyond those of the snapshot, so that every client lists
again. Nothing is overwritten: what is there already is refused, or set aside.`

func newSnapshotCommand(out io.Writer) *cobra.Command {
	dir := options.DefaultDataDir
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Writes what the API server stores to the standard output",
		Long:  snapshotLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storage.WriteSnapshot(cmd.Context(), dir, out)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "The data directory of the API server that runs.")
	return cmd
}

func newRestoreCommand(out io.Writer) *cobra.Command {
	o := storage.RestoreOptions{DataDir: options.DefaultDataDir}
	cmd := &cobra.Command{
		Use:   "restore --snapshot FILE",
		Short: "Fills an empty data directory from a snapshot",
		Long:  restoreLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return restore(cmd.Context(), o, cmd.InOrStdin(), out)
		},
	}
	cmd.Flags().StringVar(&o.Snapshot, "snapshot", "", "The file with the snapshot; - reads it from the standard input, newest is the newest in the directory snapshots of --data-dir. Required.")
	cmd.Flags().StringVar(&o.DataDir, "data-dir", o.DataDir, "The data directory to fill.")
	cmd.Flags().BoolVar(&o.SetAside, "set-aside", false, "Rename the data that is there, instead of refusing.")
	return cmd
}

func restore(ctx context.Context, o storage.RestoreOptions, in io.Reader, out io.Writer) (err error) {
	if o.Snapshot == "" {
		return errors.New("--snapshot is required: name the file, or say - for the standard input or newest")
	}
	if o.Snapshot == standardInput {
		// In the data directory, where there is room for it: the other file
		// systems of the pod are read-only or small.
		file, err := os.CreateTemp(o.DataDir, "snapshot-")
		if err != nil {
			return fmt.Errorf("keeping the snapshot: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
		if err := receive(ctx, file, in); err != nil {
			return errors.Join(fmt.Errorf("reading the snapshot: %w", err), file.Close())
		}
		if err := file.Close(); err != nil {
			return err
		}
		o.Snapshot = file.Name()
	}
	restored, err := storage.Restore(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored %d objects as of revision %d into %s\n", restored.Keys, restored.Revision, o.DataDir)
	if restored.Aside != "" {
		fmt.Fprintf(out, "what was there is now in %s\n", restored.Aside)
	}
	return nil
}

// receive copies until the end of in, or until ctx is done: nothing ends the
// wait for a standard input that nobody writes to.
func receive(ctx context.Context, out io.Writer, in io.Reader) error {
	received := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, in)
		received <- err
	}()
	select {
	case err := <-received:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
