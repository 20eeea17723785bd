// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// Collect writes all objects to dir, in one file per resource and without the data of Secrets, and
// the current and previous logs of all containers. It continues after errors, and returns them
// joined.
func (c *Cluster) Collect(ctx context.Context, dir string) error {
	dir = filepath.Join(dir, c.Name)
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return err
	}
	return errors.Join(c.collectObjects(ctx, dir), c.collectLogs(ctx, filepath.Join(dir, "logs")))
}

func (c *Cluster) collectObjects(ctx context.Context, dir string) error {
	// While the federation's API is not available, discovery returns an error and all other
	// resources.
	resources, failed := c.Listable()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	failures := []error{failed}
	for _, resource := range resources {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			failures = append(failures, fmt.Errorf("listing %s: %w", resource.GroupResource(), err))
			continue
		}
		if len(list.Items) == 0 {
			continue
		}
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
			if resource == secrets {
				list.Items[i].Object["data"] = "not shown"
			}
		}
		text, err := yaml.Marshal(list)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, resource.GroupResource().String()+".yaml"), text, 0o644)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func (c *Cluster) collectLogs(ctx context.Context, dir string) error {
	return c.EachLog(ctx, func(name string, log io.Reader) error {
		f, err := os.Create(filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".log"))
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(f, log)
		return err
	})
}

// EachLog calls read with the current log of every container in the cluster, and with the log of
// its previous run if there was one. The name is "namespace/pod/container", with the suffix
// "/previous" for a previous run. It omits logs that were deleted with their pods meanwhile.
func (c *Cluster) EachLog(ctx context.Context, read func(name string, log io.Reader) error) error {
	pods, err := c.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var failures []error
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			name := pod.Namespace + "/" + pod.Name + "/" + status.Name
			if status.ContainerID != "" {
				failures = append(failures, c.readLog(ctx, &pod, name, &corev1.PodLogOptions{Container: status.Name}, read))
			}
			if status.LastTerminationState.Terminated != nil {
				failures = append(failures, c.readLog(ctx, &pod, name+"/previous",
					&corev1.PodLogOptions{Container: status.Name, Previous: true}, read))
			}
		}
	}
	return errors.Join(failures...)
}

func (c *Cluster) readLog(ctx context.Context, pod *corev1.Pod, name string, options *corev1.PodLogOptions,
	read func(string, io.Reader) error) error {
	log, err := c.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil && c.isDeleted(ctx, pod) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", name, err)
	}
	defer log.Close()
	if err := read(name, log); err != nil {
		return fmt.Errorf("reading the log of %s: %w", name, err)
	}
	return nil
}

// isDeleted reports whether a pod is deleted or being deleted, so that the logs of its containers may be deleted.
func (c *Cluster) isDeleted(ctx context.Context, pod *corev1.Pod) bool {
	found, err := c.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return found.UID != pod.UID || found.DeletionTimestamp != nil
}
