import iris from './iris.csv?raw';

// Fisher's values (rows 35 and 38 as in the paper), compared with R's datasets::iris and scikit-learn's iris.csv.
export const irisTitle = 'Fisher’s Iris';
export const irisText = new Blob([iris]);
