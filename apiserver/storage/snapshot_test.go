// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"pgregory.net/rapid"
)

// filled starts an etcd and writes the given number of keys to it. It returns the etcd, its revision,
// and a function that stops it.
func filled(t *testing.T, keys int) (etcd *Embedded, revision int64, stop func()) {
	t.Helper()
	etcd, err := Start(t.Context(), shortTempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	for i := range keys {
		response, err := etcd.client.Put(t.Context(), fmt.Sprintf("/registry/%d", i), "kept")
		if err != nil {
			t.Fatal(err)
		}
		revision = response.Header.Revision
	}
	return etcd, revision, stop
}

func writeSnapshot(t *testing.T, etcd *Embedded) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	var out bytes.Buffer
	if err := WriteSnapshot(t.Context(), etcd.dir.path, &out); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRestoredDataIsTheSavedDataAtALaterRevision(t *testing.T) {
	etcd, revision, _ := filled(t, 10)
	path := writeSnapshot(t, etcd)
	if _, err := etcd.client.Put(t.Context(), "/registry/later", "lost"); err != nil {
		t.Fatal(err)
	}

	dir := shortTempDir(t)
	restored, err := Restore(t.Context(), RestoreOptions{Snapshot: path, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if restored.Keys != 10 || restored.Revision != revision || restored.Aside != "" {
		t.Errorf("got %+v, want 10 keys as of revision %d", restored, revision)
	}
	again, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	got, err := again.client.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if got.Count != 10 {
		t.Errorf("got %d keys", got.Count)
	}
	if got.Header.Revision < revision+revisionBump {
		t.Errorf("the revision is %d, after %d before", got.Header.Revision, revision)
	}
	// A watch that began before the restore must fail, so that its client lists all objects again.
	watched := <-again.client.Watch(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	if watched.CompactRevision == 0 {
		t.Errorf("a watch from revision %d goes on: %v", revision+1, watched)
	}
}

func TestRestoreOverwritesNothing(t *testing.T) {
	etcd, _, stop := filled(t, 3)
	path := writeSnapshot(t, etcd)
	dir := etcd.dir.path
	if _, err := Restore(t.Context(), RestoreOptions{Snapshot: path, DataDir: dir, SetAside: true}); err == nil ||
		!strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("while a server runs: got %v", err)
	}
	stop()
	if _, err := Restore(t.Context(), RestoreOptions{Snapshot: path, DataDir: dir}); err == nil ||
		!strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("over other data: got %v", err)
	}
	restored, err := Restore(t.Context(), RestoreOptions{Snapshot: path, DataDir: dir, SetAside: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(restored.Aside, "member", "snap", "db")); err != nil {
		t.Errorf("the earlier data is not in %q: %v", restored.Aside, err)
	}
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	etcd, _, _ := filled(t, 3)
	whole, err := os.ReadFile(writeSnapshot(t, etcd))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{
		"empty": {}, "cut short": whole[:len(whole)-4096], "without its checksum": whole[:len(whole)-32], "with another bit": flipped, "longer": append(bytes.Clone(whole), 0),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			dir := shortTempDir(t)
			if _, err := Restore(t.Context(), RestoreOptions{Snapshot: path, DataDir: dir}); err == nil ||
				!strings.Contains(err.Error(), "damaged") {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, etcdName)); !os.IsNotExist(err) {
				t.Errorf("something was restored: %v", err)
			}
		})
	}
}

func TestChecksumIsFoundInWritesOfAnySize(t *testing.T) {
	etcd, _, _ := filled(t, 1)
	whole, err := os.ReadFile(writeSnapshot(t, etcd))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		hash := newTrailer()
		for rest := whole; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 1<<16).Draw(t, "n"))
			if _, err := hash.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if !hash.valid() {
			t.Fatal("not valid")
		}
	})
}

func TestOnlyTheNewestSnapshotsAreKept(t *testing.T) {
	etcd, _, stop := filled(t, 3)
	left := filepath.Join(etcd.dir.snapshots(), "20200101T000000.000Z.db.new.part")
	if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var newest string
	for i := range 4 {
		var err error
		if newest, err = etcd.snapshotAndPrune(t.Context(), 2, start.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := etcd.dir.allSnapshots()
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 2 || paths[1] != newest {
		t.Errorf("got %q, want two with %s the last", paths, newest)
	}
	all, err := os.ReadDir(etcd.dir.snapshots())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Errorf("%d files are left", len(all))
	}
	for _, path := range paths {
		if err := verify(path); err != nil {
			t.Error(err)
		}
	}
	if restored, err := Restore(t.Context(), RestoreOptions{Snapshot: Newest, DataDir: shortTempDir(t)}); err == nil {
		t.Errorf("restored %+v from a directory without snapshots", restored)
	}
	stop()
	restored, err := Restore(t.Context(), RestoreOptions{Snapshot: Newest, DataDir: etcd.dir.path, SetAside: true})
	if err != nil || restored.Keys != 3 {
		t.Errorf("restored %+v from the newest snapshot: %v", restored, err)
	}
	if wait := etcd.untilSnapshot(time.Hour, time.Now()); wait < 50*time.Minute || wait > time.Hour {
		t.Errorf("the next snapshot in %s, though the last one is new", wait)
	}
	if wait := etcd.untilSnapshot(time.Hour, time.Now().Add(3*time.Hour)); wait != firstSnapshot {
		t.Errorf("a snapshot that is overdue in %s", wait)
	}
}

func TestFullVolumeKeepsOnlyTheNewestSnapshot(t *testing.T) {
	etcd, _, _ := filled(t, 1)
	for i := range 3 {
		if _, err := etcd.snapshotAndPrune(t.Context(), 3, time.Now().Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		needed uint64
		left   int
	}{{1, 3}, {1 << 60, 1}} {
		if err := etcd.makeRoom(test.needed); err != nil {
			t.Fatal(err)
		}
		paths, err := etcd.dir.allSnapshots()
		if err != nil || len(paths) != test.left {
			t.Errorf("%d snapshots are left when %d bytes must be free, want %d (%v)", len(paths), test.needed, test.left, err)
		}
	}
}

func TestDatabaseWithMuchFreeSpaceIsDefragmented(t *testing.T) {
	etcd, _, _ := filled(t, 3)
	if freed, err := etcd.defragment(t.Context()); err != nil || freed != 0 {
		t.Errorf("a small database: freed %d, %v", freed, err)
	}
	value := strings.Repeat("x", 1<<20)
	var revision int64
	for range defragThresholdMiB * 2 {
		response, err := etcd.client.Put(t.Context(), "/registry/large", value)
		if err != nil {
			t.Fatal(err)
		}
		revision = response.Header.Revision
	}
	if _, err := etcd.client.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	// etcd reports the freed space only after the next write has reached the disk, so the test polls.
	var freed int64
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			if _, err := etcd.client.Put(ctx, "/registry/small", "x"); err != nil {
				return false, err
			}
			var err error
			freed, err = etcd.defragment(ctx)
			return freed > 0, err
		})
	if err != nil || freed < defragThresholdMiB<<20 {
		t.Errorf("freed %d, %v", freed, err)
	}
	got, err := etcd.client.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil || got.Count != 5 {
		t.Errorf("%d keys are left, %v", got.Count, err)
	}
}

func TestFullDatabaseAcceptsWritesOnceItHasFreeSpace(t *testing.T) {
	const quota = 8 << 20
	dir := shortTempDir(t)
	etcd, err := start(t.Context(), dir, quota)
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("x", 256<<10)
	objects := 0
	fill := func() (written int) {
		for ; ; written++ {
			_, err := etcd.client.Put(t.Context(), fmt.Sprintf("/registry/large/%d", objects), value)
			objects++
			switch {
			case errors.Is(err, rpctypes.ErrNoSpace):
				return written
			case err != nil:
				t.Fatal(err)
			case written > 4*quota/len(value):
				t.Fatal("the quota does not hold")
			}
		}
	}
	// A database that reached the quota also contains free pages. It is full of objects only when
	// defragmentation does not make room for another write.
	for range 8 {
		if written := fill(); written == 0 {
			t.Fatal("nothing was written")
		}
		if _, err = etcd.defragment(t.Context()); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "delete objects") {
		t.Fatalf("a database that is full of objects: %v", err)
	}

	// The alarm persists over a restart.
	if err := etcd.Close(); err != nil {
		t.Fatal(err)
	}
	if etcd, err = start(t.Context(), dir, quota); err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	if _, err := etcd.client.Delete(t.Context(), "/registry/large/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	// The API server compacts every five minutes, which needs a write and thus fails.
	if _, _, _, err := etcd3.Compact(t.Context(), etcd.client, 0, 1); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("the API server compacts a full database: %v", err)
	}
	if _, err := etcd.client.Put(t.Context(), "/registry/small", "x"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("the alarm is gone by itself: %v", err)
	}
	if freed, err := etcd.defragment(t.Context()); err != nil || freed == 0 {
		t.Errorf("freed %d, %v", freed, err)
	}
	if _, err := etcd.client.Put(t.Context(), "/registry/small", "x"); err != nil {
		t.Errorf("with room again: %v", err)
	}
	// etcd must accept as many writes as before it was full.
	if written := fill(); written < 2 {
		t.Errorf("only %d were written", written)
	}
}

func TestStoreWithoutKeysIsEmpty(t *testing.T) {
	etcd, _, _ := filled(t, 1)
	transport := storagebackend.TransportConfig{ServerList: []string{etcd.Endpoint()}}
	for prefix, want := range map[string]bool{"/registry/": false, "/other/": true} {
		if empty, err := Empty(t.Context(), transport, prefix); err != nil || empty != want {
			t.Errorf("%s: empty %t, %v", prefix, empty, err)
		}
	}
}

func TestSnapshotRequiresARunningServer(t *testing.T) {
	err := WriteSnapshot(t.Context(), t.TempDir(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "no server runs in it") {
		t.Errorf("got %v", err)
	}
}
