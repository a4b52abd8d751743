// The scores of hits of the search: Sphinx reads this file by html_search_scorer.
// Sphinx alone sorts pages that have the words of a query anywhere by their titles.  Here pages that
// have more of them in headings come first, then guides, notebooks, the reference, and last pages
// on how dshap is built.
var Scorer = {
  // as in Sphinx
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  heading: 3, // for each word of the query in a heading of the page
  folders: { docs: 2, notebooks: 1, api: 0, dshap: -4, workflows: -4, cluster: -4 },

  score: ([page, title, anchor, description, score]) => {
    const headings = Scorer.words().filter((word) => Scorer.isInHeadings(word, page));
    const folder = page.includes("/") ? page.split("/")[0] : "docs";
    return score + Scorer.heading * headings.length + Scorer.folders[folder];
  },

  // The stems of the words of the query
  words: () => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const stemmer = new Stemmer();
    return [...new Set(splitQuery(query.toLowerCase()).map((word) => stemmer.stemWord(word)))];
  },

  isInHeadings: (word, page) => {
    const { docnames, titleterms } = Search._index;
    return [titleterms[word] ?? []].flat().includes(docnames.indexOf(page));
  },
};
