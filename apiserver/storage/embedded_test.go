// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// shortTempDir returns a temporary directory whose path is short enough for a unix socket in it.
// t.TempDir can be too long.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func connect(t *testing.T, e *Embedded) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestDataPersistsOverARestart(t *testing.T) {
	dir := shortTempDir(t)
	first, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, first).Put(t.Context(), "/registry/x", "kept"); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("got error %v for a second etcd in the same directory", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	got, err := connect(t, second).Get(t.Context(), "/registry/x")
	if err != nil {
		t.Fatal(err)
	}
	if got.Count != 1 || string(got.Kvs[0].Value) != "kept" {
		t.Errorf("got %v after the restart", got.Kvs)
	}
}

func TestNothingListensOnTheNetwork(t *testing.T) {
	etcd, err := Start(t.Context(), shortTempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	if len(etcd.etcd.Peers) > 0 {
		t.Errorf("%d listeners for peers", len(etcd.etcd.Peers))
	}
	for _, listener := range etcd.etcd.Clients {
		if _, ok := listener.Addr().(*net.UnixAddr); !ok {
			t.Errorf("listens on %s", listener.Addr())
		}
	}
	info, err := os.Stat(filepath.Dir(etcd.dir.socket()))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("other users can open the socket: mode %s", info.Mode())
	}
}
