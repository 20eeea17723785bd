// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

func TestASnapshotTakenWhileOthersWriteIsRestoredAfterTheVolumeIsLost(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t))
	client, err := versioned.NewForConfig(server.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	tokens := client.FederationV1alpha1().PeeringTokens()
	before := map[string]types.UID{}
	for i := range 20 {
		token, err := tokens.Create(t.Context(), newToken(fmt.Sprintf("before-%d", i)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before[token.Name] = token.UID
	}
	history := startHistory(t, server.Client(env.Admin), 4)
	history.reach(50)
	snapshot, err := env.RunCommand(t, nil, "snapshot", "--data-dir="+server.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	history.reach(50)
	history.finish()
	if _, err := tokens.Create(t.Context(), newToken("after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	last, err := tokens.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}

	restore := func(snapshot []byte) error {
		_, err := env.RunCommand(t, bytes.NewReader(snapshot), "restore", "--snapshot=-", "--data-dir="+server.DataDir)
		return err
	}
	if err := restore(snapshot); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("beneath a server that runs: got %v", err)
	}
	server.Stop(t, syscall.SIGTERM)
	if err := restore(snapshot); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("over existing data: got %v", err)
	}
	if err := os.RemoveAll(server.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(server.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := restore(snapshot[:len(snapshot)/2]); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("half of the data: got %v", err)
	}
	if err := restore(snapshot); err != nil {
		t.Fatal(err)
	}
	server.Start(t)

	list, err := tokens.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range list.Items {
		if uid, ok := before[token.Name]; ok && uid == token.UID {
			delete(before, token.Name)
		}
		if token.Name == "after" {
			t.Errorf("%s was created after the snapshot", token.Name)
		}
	}
	if len(before) > 0 {
		t.Errorf("lost: %v", before)
	}
	if parse(t, list.ResourceVersion) <= parse(t, last.ResourceVersion) {
		t.Errorf("resource versions went back from %s to %s", last.ResourceVersion, list.ResourceVersion)
	}
	// A watch from a resource version before the restore must fail, so that clients list again and
	// miss no change.
	watcher, err := tokens.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion})
	if err == nil {
		event := <-watcher.ResultChan()
		watcher.Stop()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch that began before continues: %v", err)
	}
	if _, err := tokens.Create(t.Context(), newToken("after"), metav1.CreateOptions{}); err != nil {
		t.Errorf("the restored server stores nothing: %v", err)
	}
}

func TestSnapshotsAreTakenBySchedule(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t), "--snapshots-interval=1s", "--snapshots-retain=2")
	paths := func(atLeast int) []string {
		return retry(t, func() ([]string, error) {
			paths, err := filepath.Glob(filepath.Join(server.DataDir, "snapshots", "*.db"))
			if err == nil && len(paths) < atLeast {
				err = fmt.Errorf("%d snapshots in %s", len(paths), server.DataDir)
			}
			return paths, err
		})
	}
	first := paths(1)[0]
	retry(t, func() (any, error) {
		if _, err := os.Stat(first); err == nil {
			return nil, fmt.Errorf("the first snapshot %s still exists", first)
		}
		return nil, nil
	})
	last := paths(2)
	if len(last) > 2 {
		t.Errorf("%d snapshots are kept", len(last))
	}
	_, metrics := send(t, server.Client(env.Admin), "GET", "/metrics", nil, "")
	for _, want := range []string{`federation_etcd_snapshots_total{result="success"}`,
		"federation_etcd_last_snapshot_timestamp_seconds", "federation_etcd_last_snapshot_size_bytes"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	server.Stop(t, syscall.SIGTERM)
	dir := env.MakeDataDir(t)
	if _, err := env.RunCommand(t, nil, "restore", "--snapshot="+last[0], "--data-dir="+dir); err != nil {
		t.Fatal(err)
	}
}
