// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/test/harness"
)

// runsTheSampleShop runs the sample shop in an offloaded namespace. All pods must run on milan,
// except the pods of its DaemonSet.
func runsTheSampleShop(t *testing.T) {
	o := offloaded(t, remoteOnly)
	kubectl(t, rome, "apply", "-n", o.namespace, "-f", filepath.Join(playground.Root, "artifacts", "samples", "shop.yaml"))
	shopRuns(t, o)

	for _, pod := range must(rome.Kube.CoreV1().Pods(o.namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if local := pod.Labels["app"] == "meter"; local != (pod.Spec.NodeName != virtualNode) {
			t.Errorf("pod %s is on %s", pod.Name, pod.Spec.NodeName)
		}
	}
	if remote := must(milan.Kube.CoreV1().Pods(o.remote).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app=meter"}))(t); len(remote.Items) > 0 {
		t.Errorf("%d pods of the DaemonSet are on milan", len(remote.Items))
	}
	ingress := must(milan.Kube.NetworkingV1().Ingresses(o.remote).Get(t.Context(), "shop", metav1.GetOptions{}))(t)
	if len(ingress.Spec.Rules) != 1 || ingress.Spec.Rules[0].Host != "shop.example.com" {
		t.Errorf("the Ingress on milan: %s", show(ingress.Spec))
	}

	shopSells(t, o)

	everyMinute := []byte(`{"spec":{"schedule":"* * * * *"}}`)
	report := must(rome.Kube.BatchV1().CronJobs(o.namespace).Patch(t.Context(), "report", types.MergePatchType,
		everyMinute, metav1.PatchOptions{}))(t)
	eventually(t, time.Minute+soon, "a report to be written when it is time",
		func(ctx context.Context) (bool, string, error) {
			jobs, err := rome.Kube.BatchV1().Jobs(o.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			isReport := func(job batchv1.Job) bool { return metav1.IsControlledBy(&job, report) }
			first := slices.IndexFunc(jobs.Items, isReport)
			if first < 0 {
				return false, "no job yet", nil
			}
			result := rome.Kubectl(ctx, "logs", "-n", o.namespace, "job/"+jobs.Items[first].Name)
			return strings.Contains(result.Stdout, "wine:999"), fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
		})
}

// shopRuns waits until all pods of the shop are Ready, including the second replica that the
// HorizontalPodAutoscaler creates.
func shopRuns(t *testing.T, o offload) {
	t.Helper()
	apps := rome.Kube.AppsV1()
	nodes := must(rome.Kube.CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{LabelSelector: "liqo.io/type!=virtual-node"}))(t)
	for what, condition := range map[string]harness.Condition{
		"all Deployments to be available": func(ctx context.Context) (bool, string, error) {
			deployments, err := apps.Deployments(o.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			var waiting []string
			for _, d := range deployments.Items {
				wanted := int32(1)
				if d.Name == "recommend" {
					wanted = 2
				}
				if d.Status.AvailableReplicas < wanted {
					waiting = append(waiting, d.Name)
				}
			}
			return len(waiting) == 0 && len(deployments.Items) == 8,
				fmt.Sprintf("%d Deployments, waiting for %v", len(deployments.Items), waiting), nil
		},
		"the StatefulSet to be ready": func(ctx context.Context) (bool, string, error) {
			set, err := apps.StatefulSets(o.namespace).Get(ctx, "stock", metav1.GetOptions{})
			return err == nil && set.Status.ReadyReplicas == 1, "not ready", err
		},
		"the DaemonSet to be on each node of rome": func(ctx context.Context) (bool, string, error) {
			set, err := apps.DaemonSets(o.namespace).Get(ctx, "meter", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return int(set.Status.NumberReady) == len(nodes.Items) && int(set.Status.DesiredNumberScheduled) == len(nodes.Items),
				show(set.Status), nil
		},
		"the Job to be complete": func(ctx context.Context) (bool, string, error) {
			job, err := rome.Kube.BatchV1().Jobs(o.namespace).Get(ctx, "seed", metav1.GetOptions{})
			return err == nil && job.Status.Succeeded == 1, "not complete", err
		},
	} {
		eventually(t, soon, what, condition)
	}
}

func shopAnswers(t *testing.T, method, url string, fragments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	request := must(http.NewRequestWithContext(ctx, method, url, nil))(t)
	response := must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	body := string(must(io.ReadAll(response.Body))(t))
	for _, want := range fragments {
		if response.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s %s answers %s without %q:\n%s", method, url, response.Status, want, body)
		}
	}
}

// shopSells waits until the shop shows its products, and buys one.
func shopSells(t *testing.T, o offload) {
	t.Helper()
	front := "http://" + forward(t, rome, o.namespace, "deployment/front", "8080")
	eventually(t, soon, "every part of the shop to be found by the others",
		func(ctx context.Context) (bool, string, error) {
			result := harness.Run(harness.Command(ctx, "curl", "--silent", "--max-time", "5", front+"/"))
			return strings.Contains(result.Stdout, "0 in the cart"), result.Stdout, nil
		})
	shopAnswers(t, http.MethodGet, front+"/", "The corner shop", "wine: 13.20 EUR, 1000 left", "0 in the cart")
	shopAnswers(t, http.MethodPost, front+"/cart?product=wine", `["wine"]`)
	shopAnswers(t, http.MethodPost, front+"/checkout", `"product":"wine","paid":"13.20 EUR"`, `"tracking":"pigeon-`)
	shopAnswers(t, http.MethodGet, front+"/", "wine: 13.20 EUR, 999 left")
}
